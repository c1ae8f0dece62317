import { button, fill, h } from './html.js'
import { wordsOf } from './session.js'

/** @import { Child } from './html.js' */

/**
 * Opens a dialog with a form. Escape and Cancel close it; Enter sends. While `send` works nothing can be sent twice; what
 * it throws is shown and the form stays.
 *
 * @param {object} options
 * @param {string} options.title
 * @param {Child[]} options.content
 * @param {string} options.action label of the button that sends
 * @param {string} [options.kind] `primary` or `danger`
 * @param {(form: FormData) => Promise<void>} options.send
 * @returns {HTMLDialogElement}
 */
export function openForm({ title, content, action, kind = 'primary', send }) {
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true })
  const sendButton = h('button', { type: 'submit', class: `button ${kind}` }, action)
  const cancel = button('Cancel', () => dialog.close(), { kind: 'quiet' })
  // Where something is lost, a second Enter must not do it.
  if (kind === 'danger') cancel.autofocus = true
  const form = h(
    'form',
    { method: 'dialog', novalidate: true },
    h('h2', { id: 'dialog-title' }, title),
    ...content,
    problem,
    h('div', { class: 'actions' }, sendButton, cancel),
  )
  const dialog = show(form)
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    if (sendButton.disabled) return
    sendButton.disabled = true
    problem.hidden = true
    try {
      await send(new FormData(form))
      dialog.close()
    } catch (error) {
      fill(problem, wordsOf(error))
      problem.hidden = false
    } finally {
      sendButton.disabled = false
    }
  })
  return dialog
}

/**
 * Shows something once: a token, a command. It stays until its owner says that it is stored; Escape, the way back and
 * leaving the page ask first.
 *
 * @param {{ title: string, intro: string, secret: string, label: string, outro?: string, more?: HTMLElement }} options
 * `more`: stands below the secret
 * @returns {{ dialog: HTMLDialogElement, used: () => void }} `used`: it is worth nothing any more, so nothing asks
 */
export function showOnce({ title, intro, secret, label, outro, more }) {
  let isStored = false
  const ask = h('p', { class: 'problem', role: 'alert', hidden: true })
  const done = button('I have stored it', () => close(), { kind: 'primary' })
  const shown = copyable(secret, label)
  const dialog = show(
    h(
      'div',
      {},
      h('h2', { id: 'dialog-title' }, title),
      h('p', {}, intro),
      shown,
      outro === undefined ? null : h('p', { class: 'muted' }, outro),
      more,
      ask,
      h('div', { class: 'actions' }, done),
    ),
  )
  // Browsers close a dialog on a second Escape, or on the way back, whatever a listener says.
  dialog.setAttribute('closedby', 'none')
  dialog.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return
    event.preventDefault()
    if (isStored) close()
    else doubt()
  })
  dialog.addEventListener('cancel', (event) => {
    if (isStored) return
    event.preventDefault()
    doubt()
  })
  const onLeave = (/** @type {Event} */ event) => event.preventDefault()
  window.addEventListener('beforeunload', onLeave)
  shown.querySelector('button')?.focus()

  function doubt() {
    fill(ask, `Is it stored? This ${label} is shown once and never again.`)
    ask.hidden = false
    done.focus()
  }
  function close() {
    used()
    dialog.close()
  }
  function used() {
    isStored = true
    ask.hidden = true
    dialog.setAttribute('closedby', 'closerequest')
    if (!dialog.contains(document.activeElement)) done.focus()
    fill(done, 'Done')
    window.removeEventListener('beforeunload', onLeave)
  }
  return { dialog, used }
}

const copiedMs = 4_000

/** Text with a button that copies it and says whether it could. @param {string} text @param {string} label */
export function copyable(text, label) {
  const told = h('span', { class: 'visually-hidden', role: 'status' })
  const shown = h('code', { tabindex: 0, 'aria-label': label }, text)
  const copy = button(
    'Copy',
    async () => {
      const isCopied = await navigator.clipboard.writeText(text).then(
        () => true,
        () => false,
      )
      fill(copy, isCopied ? 'Copied' : 'Press Ctrl+C')
      fill(told, isCopied ? `The ${label} is copied.` : `The browser did not copy. The ${label} is selected.`)
      if (!isCopied) getSelection()?.selectAllChildren(shown)
      setTimeout(() => fill(copy, 'Copy'), copiedMs)
    },
    { kind: 'small copy', name: `Copy ${label}` },
  )
  return h('div', { class: 'copyable' }, shown, copy, told)
}

/** @param {HTMLElement} content */
function show(content) {
  const dialog = h('dialog', { 'aria-labelledby': 'dialog-title' }, content)
  const before = document.activeElement
  dialog.addEventListener('close', () => {
    dialog.remove()
    // Where the keyboard was, if that is still there.
    if (before instanceof HTMLElement && before.isConnected) before.focus()
  })
  document.body.append(dialog)
  dialog.showModal()
  return dialog
}
