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
 * Shows something once: a token, a command.
 *
 * @param {{ title: string, intro: string, secret: string, label: string, outro?: string }} options
 */
export function showOnce({ title, intro, secret, label, outro }) {
  const dialog = show(
    h(
      'div',
      {},
      h('h2', { id: 'dialog-title' }, title),
      h('p', {}, intro),
      copyable(secret, label),
      outro === undefined ? null : h('p', { class: 'muted' }, outro),
      h(
        'div',
        { class: 'actions' },
        button('Done', () => dialog.close(), { kind: 'primary' }),
      ),
    ),
  )
}

/** Text with a button that copies it. @param {string} text @param {string} label */
export function copyable(text, label) {
  const copy = button(
    'Copy',
    async () => {
      await navigator.clipboard.writeText(text).then(
        () => fill(copy, 'Copied'),
        () => fill(copy, 'Select it and copy'),
      )
    },
    { kind: 'small', name: `Copy ${label}` },
  )
  return h('div', { class: 'copyable' }, h('code', { tabindex: 0, 'aria-label': label }, text), copy)
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
