/** @import { Status } from '../main.js' */
import { field, input } from '../fields.js'
import { fill, h } from '../html.js'
import { call, Refusal, wordsOf } from '../session.js'

/**
 * The password form of a locked vault. After a wrong password it waits as long as the vault does, and says so.
 *
 * @param {HTMLElement} main @param {{ status: Status, onunlocked: () => void }} options
 * @returns {void}
 */
export function showUnlock(main, { status, onunlocked }) {
  const password = input('password', { type: 'password', autocomplete: 'current-password', required: true })
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true })
  const wait = h('p', { class: 'muted', role: 'timer', hidden: true })
  const unlock = h('button', { type: 'submit', class: 'button primary' }, 'Unlock')
  const form = h(
    'form',
    { novalidate: true },
    field('Password', password),
    problem,
    wait,
    h('div', { class: 'actions' }, unlock),
  )
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    if (unlock.disabled || password.value === '') return
    unlock.disabled = true
    problem.hidden = true
    fill(unlock, 'Unlocking…')
    try {
      await call('POST', '/unlock', { password: password.value })
      password.value = ''
      onunlocked()
    } catch (error) {
      fill(problem, wordsOf(error))
      problem.hidden = false
      password.select()
      await waitOut(error instanceof Refusal ? (error.retryAfterSeconds ?? 0) * 1_000 : 0)
    } finally {
      fill(unlock, 'Unlock')
      unlock.disabled = false
    }
  })

  /** @param {number} ms */
  async function waitOut(ms) {
    const until = Date.now() + ms
    fill(unlock, 'Unlock')
    unlock.disabled = true
    wait.hidden = false
    while (Date.now() < until && main.contains(form)) {
      const seconds = Math.ceil((until - Date.now()) / 1_000)
      fill(wait, `The vault takes the next password in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.`)
      await new Promise((go) => setTimeout(go, 250))
    }
    wait.hidden = true
    unlock.disabled = false
  }

  fill(
    main,
    h(
      'section',
      { class: 'gate' },
      h('h1', {}, 'The vault is locked'),
      status.lock_reason === 'signer' &&
        h(
          'p',
          { role: 'alert' },
          'The process that held the keys ended by itself. Unlocking starts another one.',
        ),
      h('p', {}, 'No key is in memory and no agent gets anything. Agents that ask are told to come back.'),
      form,
      h('p', { class: 'muted small-text' }, `Vault ${status.vault_id}`),
    ),
  )
  password.focus()
  if (status.retry_after_ms > 0) void waitOut(status.retry_after_ms)
}
