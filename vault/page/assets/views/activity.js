/** @import { Entry } from '../activityWords.js' */
import { actions, hasText, outcomes, wordsOfEntry } from '../activityWords.js'
import { choice, empty, failed, field, heading, input, loading } from '../fields.js'
import { button, fill, h } from '../html.js'
import { call, wordsOf } from '../session.js'
import { approvals } from '../store.js'
import { dayOf, timeOf, toneOf } from '../words.js'

/** Groups of this many: a page of the log may be short, even empty, and still have a next one. */
const pageSize = 50
/** Text is looked for here, in larger groups: so many, and so many of them at one go. */
const searchPageSize = 500
const searchPages = 8
const typingMs = 250

/**
 * The log: everything that was asked and what became of it, newest first, by days.
 *
 * @param {HTMLElement} main
 * @returns {() => void}
 */
export function showActivity(main) {
  const agent = choice('agent', [['', 'Anyone']])
  const action = choice('action', [['', 'Anything'], ...Object.entries(actions)])
  const status = choice('status', [['', 'Any'], ...Object.entries(outcomes)])
  const text = input('text', { type: 'search', placeholder: 'Address, scope, note …' })
  const days = h('div', { class: 'days' })
  const below = h('div', { class: 'below' })
  const verdict = h('p', { class: 'verdict', role: 'status' })
  const verify = button('Verify log', () => void check())
  /** Newest first. @type {Entry[]} */
  let entries = []
  /** @type {string | undefined} */
  let next
  let isLeft = false
  /** Answers of an older filter come too late to be shown. */
  let turn = 0
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing

  for (const one of [agent, action, status]) one.addEventListener('change', () => void load())
  text.addEventListener('input', () => {
    clearTimeout(typing)
    typing = setTimeout(() => void load(), typingMs)
  })
  fill(
    main,
    heading('Activity', verify),
    verdict,
    h(
      'div',
      { class: 'filters', role: 'search', 'aria-label': 'Filter' },
      field('Who', agent),
      field('What', action),
      field('Outcome', status),
      field('Text', text),
    ),
    days,
    below,
  )
  void names()
  void load()
  const unwatch = approvals.watch((changed) => {
    if (changed !== undefined) void catchUp()
  })
  return () => {
    isLeft = true
    clearTimeout(typing)
    unwatch()
  }

  async function names() {
    const { agents } = await call('GET', '/agents').catch(() => ({ agents: [] }))
    const all = new Set(['owner', 'vault', ...agents.map((/** @type {{ name: string }} */ one) => one.name)])
    agent.append(...[...all].map((name) => h('option', { value: name }, name)))
  }

  /** @param {{ cursor?: string | undefined, limit?: number }} options @returns {Promise<{ events: Entry[], cursor?: string }>} */
  function read({ cursor, limit = pageSize }) {
    const query = new URLSearchParams({ limit: String(limit) })
    for (const one of [agent, action, status]) if (one.value !== '') query.set(one.name, one.value)
    if (cursor !== undefined) query.set('cursor', cursor)
    return call('GET', `/activity?${query}`)
  }

  /** From the newest on, or from where the list ends. @param {{ isMore?: boolean }} [options] */
  async function load({ isMore = false } = {}) {
    const mine = ++turn
    if (!isMore) {
      entries = []
      next = undefined
      fill(days)
    }
    fill(below, loading())
    const wanted = text.value.trim()
    try {
      for (let pages = 0; ; pages++) {
        const page = await read({ cursor: next, limit: wanted === '' ? pageSize : searchPageSize })
        if (isLeft || mine !== turn) return
        const found = wanted === '' ? page.events : page.events.filter((entry) => hasText(entry, wanted))
        entries.push(...found)
        next = page.cursor
        const isEnough = wanted === '' || found.length >= pageSize || pages + 1 >= searchPages
        if (next === undefined || isEnough) break
      }
      draw()
    } catch (error) {
      if (!isLeft && mine === turn)
        fill(
          below,
          failed(wordsOf(error), () => void load({ isMore })),
        )
    }
  }

  /** What came since, above what is there: what was opened below stays open. */
  async function catchUp() {
    const mine = turn
    const page = await read({}).catch(() => undefined)
    if (page === undefined || isLeft || mine !== turn) return
    const wanted = text.value.trim()
    const newest = entries[0]?.details.seq ?? 0
    const fresh = page.events.filter((entry) => entry.details.seq > newest)
    // More came than one page holds: begin anew.
    if (newest > 0 && fresh.length === page.events.length && fresh.length > 0) return load()
    entries.unshift(...fresh.filter((entry) => wanted === '' || hasText(entry, wanted)))
    draw()
  }

  function draw() {
    const byDay = Map.groupBy(entries, ({ timestamp }) => dayOf(timestamp))
    fill(
      days,
      [...byDay].map(([day, all]) =>
        h(
          'section',
          { class: 'day', 'aria-label': day },
          h('h2', { class: 'day-title' }, day),
          h('ul', { class: 'rows' }, all.map(rowOf)),
        ),
      ),
    )
    const cursor = next
    if (cursor !== undefined)
      fill(
        below,
        entries.length === 0 ? h('p', { class: 'muted' }, 'Nothing among the newer entries.') : null,
        button('Show older', () => void load({ isMore: true })),
      )
    else fill(below, entries.length === 0 ? nothing() : h('p', { class: 'muted small-text' }, 'That is all.'))
  }

  function nothing() {
    const isFiltered = [agent, action, status, text].some(({ value }) => value.trim() !== '')
    if (!isFiltered)
      return empty(
        'Nothing here',
        h('p', {}, 'What agents ask for and what you decide is written down here, and nothing is left out.'),
      )
    return empty(
      'Nothing here',
      h('p', {}, 'No entry of the log is like that.'),
      button('Show everything', () => {
        for (const one of [agent, action, status, text]) one.value = ''
        void load()
        agent.focus()
      }),
    )
  }

  async function check() {
    verify.disabled = true
    fill(verdict, 'Reading the whole log…')
    delete verdict.dataset['tone']
    try {
      const { ok, entries: count, firstBad, reason } = await call('GET', '/activity/verify')
      verdict.dataset['tone'] = ok ? 'good' : 'bad'
      fill(
        verdict,
        ok
          ? `All ${count} entries are as they were written.`
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

/** @param {Entry} entry */
function rowOf(entry) {
  const { who, what, about, outcome, why, more, claimed, found } = wordsOfEntry(entry)
  const isShortSum = entry.details['amount'] != null && about.length < 24
  return h(
    'li',
    { class: 'row' },
    h(
      'div',
      { class: 'row-main' },
      h('strong', {}, who),
      ` ${what}`,
      about === '' ? null : h('span', {}, ', ', h('bdi', { class: isShortSum ? 'money' : null }, about)),
      why === '' ? null : h('div', { class: 'why' }, why),
      claimed === null && found === null ? null : lieOf(claimed, found),
      more.length === 0
        ? null
        : h(
            'div',
            { class: 'muted small-text' },
            more.flatMap((one, i) => [i === 0 ? '' : ' · ', h('bdi', {}, one)]),
          ),
    ),
    h(
      'div',
      { class: 'row-end' },
      h('span', { class: 'chip', 'data-tone': toneOf(entry.status) }, outcome),
      h('div', { class: 'muted small-text' }, timeOf(entry.timestamp)),
    ),
  )
}

/** What the agent said beside what it asked for. @param {string | null} claimed @param {string | null} found */
const lieOf = (claimed, found) =>
  h(
    'dl',
    { class: 'lie' },
    claimed === null ? null : [h('dt', {}, 'The agent said'), h('dd', {}, h('bdi', {}, claimed))],
    found === null
      ? null
      : [h('dt', { class: 'truth' }, 'It would do'), h('dd', { class: 'truth' }, h('bdi', {}, found))],
  )
