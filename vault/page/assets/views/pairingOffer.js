/** @import { PairingSummary } from '../../../ports/pairings.ts' */
import { showOnce } from '../dialog.js'
import { button, fill, h } from '../html.js'
import { call, wordsOf } from '../session.js'
import { timeOf } from '../words.js'

/**
 * The command of a new pairing, shown once, and beside it how far the other machine is: what to wait for, the four words
 * to compare, and that it is done.
 *
 * @param {{ id: string, service: string, command: string, expires_at: string }} offer
 * @param {() => Promise<void>} ondecided after the owner's word about the four words
 * @returns {(pairing: PairingSummary | undefined) => void} to be told whenever the pairing was looked at
 */
export function showOffer({ id, service, command, expires_at }, ondecided) {
  const progress = h('div', { class: 'progress', role: 'status' })
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true })
  const { used } = showOnce({
    title: `Pair ${service}`,
    intro:
      'Run this on the other machine. It works once; its token is a secret, so send it by a way that you trust.',
    secret: command,
    label: 'command',
    more: h('div', {}, h('h3', {}, 'On the other machine'), progress, problem),
  })
  let drawn = ''
  show(undefined)
  return show

  /** @param {PairingSummary | undefined} pairing */
  function show(pairing) {
    const state = pairing?.state ?? 'offered'
    const phrase = pairing?.phrase ?? null
    const now = `${state} ${phrase}`
    if (now === drawn) return
    drawn = now
    fill(progress, phrase === null ? h('p', {}, progressOf(state)) : question(phrase))
    // The token was used: there is nothing left to store.
    if (state !== 'offered') used()
  }

  /** @param {string} state */
  function progressOf(state) {
    if (state !== 'offered') return words[state] ?? 'It has answered; its words come in a moment.'
    return ['Not started yet. The command is good until ', timeOf(expires_at), '.']
  }

  /** @param {string} phrase */
  function question(phrase) {
    return [
      h('p', {}, 'Does it show these four words?'),
      h('p', { class: 'phrase' }, phrase),
      h(
        'div',
        { class: 'actions' },
        button('They are the same', decide('confirm'), { kind: 'primary' }),
        button('They are others', decide('refuse'), { kind: 'danger' }),
      ),
    ]
  }

  /** @param {'confirm' | 'refuse'} verb */
  function decide(verb) {
    return async () => {
      problem.hidden = true
      try {
        await call('POST', `/pairings/${encodeURIComponent(id)}/${verb}`, {})
      } catch (error) {
        fill(problem, wordsOf(error))
        problem.hidden = false
      }
      await ondecided()
    }
  }
}

/** @type {Readonly<Record<string, string>>} */
const words = {
  paired: 'Paired. Its agent reaches this vault from now on.',
  refused: 'Refused: the words were others. Make a new command, and send it by another way.',
  expired: 'Too late: nobody used the command in time. Make a new one.',
  revoked: 'Ended.',
}
