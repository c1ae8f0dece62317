import { choice, empty, failed, field, heading, loading } from '../fields.js'
import { button, fill, h } from '../html.js'
import { call, wordsOf } from '../session.js'
import { approvals } from '../store.js'
import { toneOf, whenOf } from '../words.js'

/** @typedef {{ timestamp: string, agent: string, action: string, currency: string, status: string, details: Record<string, string | null> & { seq: number } }} Entry */

const actions = [
  'SIGN',
  'SIGN_MESSAGE',
  'SIGN_TYPED_DATA',
  'READ',
  'WRITE',
  'DELETE',
  'CALL',
  'ADDRESS',
  'UNLOCK',
  'LOCK',
  'PAIR',
  'REVOKE',
  'CONFIG',
]
const statuses = ['PENDING', 'APPROVED', 'AUTO_APPROVED', 'DENIED', 'EXPIRED', 'CANCELED', 'FAILED']
/** Groups of this many: a page of the log may be short, even empty, and still have a next one. */
const pageSize = 50

/**
 * The log: everything that was asked and what became of it, newest first.
 *
 * @param {HTMLElement} main
 * @returns {() => void}
 */
export function showActivity(main) {
  const agent = choice('agent', [['', 'Anyone']])
  const action = choice('action', [['', 'Any'], ...actions.map((one) => pair(one))])
  const status = choice('status', [['', 'Any'], ...statuses.map((one) => pair(one))])
  const rows = h('ul', { class: 'rows', 'aria-live': 'off' })
  const below = h('div', { class: 'below' })
  const verdict = h('p', { class: 'verdict', role: 'status' })
  const verify = button('Verify log', () => void check())
  let isLeft = false
  /** Answers of an older filter come too late to be shown. */
  let turn = 0

  for (const one of [agent, action, status]) one.addEventListener('change', () => void load())
  fill(
    main,
    heading('Activity', verify),
    verdict,
    h(
      'div',
      { class: 'filters', role: 'group', 'aria-label': 'Filter' },
      field('Who', agent),
      field('What', action),
      field('Outcome', status),
    ),
    rows,
    below,
  )
  void names()
  void load()
  const unwatch = approvals.watch((changed) => {
    if (changed !== undefined) void load({ quietly: true })
  })
  return () => {
    isLeft = true
    unwatch()
  }

  async function names() {
    const { agents } = await call('GET', '/agents').catch(() => ({ agents: [] }))
    const all = new Set(['owner', 'vault', ...agents.map((/** @type {{ name: string }} */ one) => one.name)])
    agent.append(...[...all].map((name) => h('option', { value: name }, name)))
  }

  /** @param {{ cursor?: string, quietly?: boolean }} [options] */
  async function load({ cursor, quietly = false } = {}) {
    const mine = ++turn
    if (cursor === undefined && !quietly) fill(rows)
    if (!quietly) fill(below, loading())
    const query = new URLSearchParams({ limit: String(pageSize) })
    for (const one of [agent, action, status]) if (one.value !== '') query.set(one.name, one.value)
    if (cursor !== undefined) query.set('cursor', cursor)
    try {
      /** @type {{ events: Entry[], cursor?: string }} */
      const page = await call('GET', `/activity?${query}`)
      if (isLeft || mine !== turn) return
      if (cursor === undefined) fill(rows, page.events.map(rowOf))
      else rows.append(...page.events.map(rowOf))
      const next = page.cursor
      if (next !== undefined)
        fill(
          below,
          button('Show older', () => void load({ cursor: next })),
        )
      else if (rows.childElementCount === 0)
        fill(
          below,
          empty(
            'Nothing here',
            h(
              'p',
              {},
              'What agents ask for and what you decide is written down here, and nothing is left out.',
            ),
          ),
        )
      else fill(below)
    } catch (error) {
      if (!isLeft && mine === turn)
        fill(
          below,
          failed(wordsOf(error), () => void load()),
        )
    }
  }

  async function check() {
    verify.disabled = true
    fill(verdict, 'Reading the whole log…')
    delete verdict.dataset['tone']
    try {
      const { ok, entries, firstBad, reason } = await call('GET', '/activity/verify')
      verdict.dataset['tone'] = ok ? 'good' : 'bad'
      fill(
        verdict,
        ok
          ? `All ${entries} entries are as they were written.`
          : `The log was changed: entry ${firstBad} is not as it was written (${reason}).`,
      )
    } catch (error) {
      verdict.dataset['tone'] = 'bad'
      fill(verdict, wordsOf(error))
    } finally {
      verify.disabled = false
    }
  }
}

/** @param {string} name @returns {[string, string]} */
const pair = (name) => [name, wordOf(name)]

/** `AUTO_APPROVED` → `Auto approved`. @param {string} name */
const wordOf = (name) => {
  const words = name.toLowerCase().replaceAll('_', ' ')
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}`
}

/** @param {Entry} entry */
function rowOf({ timestamp, agent, action, currency, status, details }) {
  const { amount, scope, recipient, chain, code, note, decision_hash } = details
  const what = amount == null ? (scope ?? '') : `${amount} ${currency}`
  const more = [
    recipient == null ? '' : `to ${recipient}`,
    chain ?? '',
    note ?? '',
    code ?? '',
    decision_hash == null ? '' : `decision ${decision_hash.slice(0, 8)}`,
  ].filter((text) => text !== '')
  return h(
    'li',
    { class: 'row' },
    h(
      'div',
      { class: 'row-main' },
      h('strong', {}, agent),
      ` ${wordOf(action)}`,
      what === '' ? null : h('span', {}, ', ', h('bdi', {}, what)),
      more.length === 0 ? null : h('div', { class: 'muted small-text' }, h('bdi', {}, more.join(' · '))),
    ),
    h(
      'div',
      { class: 'row-end' },
      h('span', { class: 'chip', 'data-tone': toneOf(status) }, wordOf(status)),
      h('div', { class: 'muted small-text' }, h('time', { datetime: timestamp }, whenOf(timestamp))),
    ),
  )
}
