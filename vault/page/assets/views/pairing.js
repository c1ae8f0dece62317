/** @import { PairingSummary } from '../../../ports/pairings.ts' */
import { copyable, openForm } from '../dialog.js'
import { cardHead, choice, empty, failed, field, heading, input, loading } from '../fields.js'
import { button, fill, h } from '../html.js'
import { call, Refusal, wordsOf } from '../session.js'
import { timeOf } from '../words.js'
import { showOffer } from './pairingOffer.js'

/** @type {Readonly<Record<string, string>>} */
const states = {
  offered: 'Waits for the other side',
  claimed: 'Waits for you',
  paired: 'Paired',
  refused: 'Refused',
  revoked: 'Ended',
  expired: 'Expired',
  suspended: 'Suspended since a restore',
}
/** @type {Readonly<Record<string, string>>} */
const tones = { offered: 'wait', claimed: 'wait', paired: 'good', refused: 'bad', suspended: 'wait' }
/** @param {string} state */
const isOver = (state) => /^(refused|revoked|expired)$/.test(state)

/** While an offer is open the other side may come at any moment. */
const lookEveryMs = 2_000

/**
 * Agents on other machines.
 *
 * @param {HTMLElement} main
 * @returns {() => void}
 */
export function showPairing(main) {
  const list = h('div', { class: 'cards' }, loading())
  const add = button('New pairing', () => void offer(), { kind: 'primary', icon: 'plus' })
  let isLeft = false
  let drawn = ''
  /** Tells the open command how far its pairing is. @type {{ id: string, show: ReturnType<typeof showOffer> } | undefined} */
  let offered
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let looking
  fill(main, heading('Pairing', add), list)
  void load()
  return () => {
    isLeft = true
    clearTimeout(looking)
  }

  async function load() {
    clearTimeout(looking)
    try {
      /** @type {[{ pairings: PairingSummary[] }, { agents: { id: string, name: string }[] }]} */
      const [{ pairings }, { agents }] = await Promise.all([call('GET', '/pairings'), call('GET', '/agents')])
      if (isLeft) return
      const names = new Map(agents.map(({ id, name }) => [id, name]))
      offered?.show(pairings.find(({ id }) => id === offered?.id))
      const now = JSON.stringify(pairings)
      // Drawn only when something changed: the keyboard may be on one of its buttons.
      if (now !== drawn)
        fill(
          list,
          pairings.length > 0
            ? pairings.map((one) => cardOf(one, names.get(one.agent_id) ?? one.agent_id))
            : nothing(),
        )
      drawn = now
      const isWaiting = pairings.some(({ state }) => state === 'offered' || state === 'claimed')
      if (isWaiting) looking = setTimeout(() => void load(), lookEveryMs)
    } catch (error) {
      if (isLeft) return
      drawn = ''
      const hasNoRelay = error instanceof Refusal && error.code === 'NOT_FOUND'
      add.hidden = hasNoRelay
      fill(list, hasNoRelay ? noRelay() : failed(wordsOf(error), () => void load()))
    }
  }

  async function offer() {
    const { agents } = await call('GET', '/agents').catch(() => ({ agents: [] }))
    /** @type {[string, string][]} */
    const live = agents
      .filter((/** @type {{ revoked_at: string | null }} */ one) => one.revoked_at === null)
      .map((/** @type {{ name: string }} */ { name }) => [name, name])
    openForm({
      title: 'Pair an agent on another machine',
      content: [
        field(
          'Service',
          input('service_id', { maxlength: 64, required: true }),
          'A name for the remote program, such as vps-1.',
        ),
        field(
          'Agent',
          choice('agent', live),
          live.length === 0 ? 'Add an agent first.' : 'It gets the scopes and policies of this agent.',
        ),
      ],
      action: 'Make the command',
      async send(form) {
        const service = String(form.get('service_id'))
        const { id, command, expires_at } = await call('POST', '/pairings', {
          service_id: service,
          agent: form.get('agent'),
        })
        offered = { id, show: showOffer({ id, service, command, expires_at }, load) }
        await load()
      },
    })
  }

  /** @param {PairingSummary} pairing @param {string} agent */
  function cardOf({ id, service_id, state, created_at, expires_at, phrase }, agent) {
    const problem = h('p', { class: 'problem', role: 'alert', hidden: true })
    const act = (/** @type {string} */ verb) => async () => {
      try {
        await call('POST', `/pairings/${encodeURIComponent(id)}/${verb}`, {})
      } catch (error) {
        fill(problem, wordsOf(error))
        problem.hidden = false
      }
      await load()
    }
    return h(
      'article',
      { class: 'card', 'aria-label': service_id },
      cardHead(
        service_id,
        `as ${agent}`,
        h('span', { class: 'chip', 'data-tone': tones[state] ?? 'plain' }, states[state] ?? state),
      ),
      phrase === null
        ? h(
            'p',
            { class: 'muted small-text' },
            'Since ',
            timeOf(created_at),
            state === 'offered' ? [', open until ', timeOf(expires_at)] : null,
          )
        : h(
            'div',
            { role: 'alert' },
            h('p', {}, 'Does the other machine show these four words?'),
            h('p', { class: 'phrase' }, phrase),
          ),
      problem,
      isOver(state)
        ? null
        : h(
            'div',
            { class: 'actions' },
            state === 'suspended'
              ? button('Let it go on', act('resume'), {
                  kind: 'small primary',
                  name: `Let ${service_id} go on`,
                })
              : null,
            phrase === null
              ? button('Revoke', () => revoke(id, service_id), {
                  kind: 'small danger',
                  name: `Revoke ${service_id}`,
                })
              : [
                  button('The same words', act('confirm'), { kind: 'primary' }),
                  button('Other words', act('refuse'), { kind: 'danger' }),
                ],
          ),
    )
  }

  /** @param {string} id @param {string} name */
  function revoke(id, name) {
    openForm({
      title: `End the pairing with ${name}?`,
      content: [
        h('p', {}, 'The other machine reaches this vault no more. To come back it needs a new command.'),
      ],
      action: 'End it',
      kind: 'danger',
      async send() {
        await call('POST', `/pairings/${encodeURIComponent(id)}/revoke`, {})
        await load()
      },
    })
  }
}

const nothing = () =>
  empty(
    'No other machine is paired',
    h(
      'p',
      {},
      'Pair one to let an agent on a server ask this vault. Keys stay here; only answers leave, encrypted from end to end.',
    ),
  )

const noRelay = () =>
  empty(
    'This vault speaks to no relay',
    h('p', {}, 'Agents of this machine need none. For agents on other machines, start the vault with one:'),
    copyable('tollgate vault --relay wss://relay.example.com', 'command'),
    h('p', { class: 'muted' }, 'A relay carries ciphertext only. Run your own with tollgate relay.'),
  )
