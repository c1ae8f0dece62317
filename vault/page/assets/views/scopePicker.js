import { choice, field, input } from '../fields.js'
import { exactScopes, isLoud, kindOfScope, problemOf, splitGrant, waysOf } from '../grants.js'
import { button, fill, h, icon } from '../html.js'
import { chainTitle } from '../words.js'

/** The groups, by the first segment of their scopes. @type {readonly (readonly [string, readonly string[]])[]} */
const groups = [
  ['Wallets', ['wallet']],
  ['Who you are', ['identity']],
  ['Addresses', ['address']],
  ['API credentials', ['credentials']],
  ['Preferences and your own', ['preferences', 'custom']],
  ['The vault', ['vault']],
]

/** @type {Readonly<Record<string, string>>} */
const titles = {
  'identity.name': 'Full name',
  'identity.email': 'E-mail',
  'identity.phone': 'Phone',
  'identity.birth_date': 'Date of birth',
  'identity.nationality': 'Nationality',
  'identity.organization': 'Organization',
  'identity.tax_id': 'Tax number',
  'identity.username': 'User name',
  'identity.website': 'Website',
  'address.home': 'Home',
  'address.work': 'Work',
  'vault.lock': 'Lock the vault',
}

/** @param {string} scope */
const titleOfScope = (scope) =>
  titles[scope] ??
  (kindOfScope(scope) === 'wallet' && !scope.endsWith('*')
    ? chainTitle(scope.slice('wallet.'.length))
    : undefined)

/**
 * What an agent may use, chosen from what there is and written where it is not there.
 *
 * @param {{ granted: readonly string[], stored: readonly string[], chains: readonly string[] }} options `granted`: lines as
 * the agent has them; `stored`: scopes that hold something now
 * @returns {{ element: HTMLElement, lines: () => string[] }} `lines` throws nothing; the vault has the last word
 */
export function createScopePicker({ granted, stored, chains }) {
  /** @type {{ scope: string, lines: () => string[] }[]} */
  const rows = []
  const lists = new Map(groups.map(([title]) => [title, h('div', { class: 'scope-rows' })]))
  const counts = new Map(groups.map(([title]) => [title, h('span', { class: 'muted' })]))
  const taken = new Set(granted.map((line) => splitGrant(line).scope))
  const known = [...chains.map((chain) => `wallet.${chain}`), ...exactScopes, ...stored]

  for (const line of granted) addRow(line, true)
  for (const scope of new Set(known)) if (!taken.has(scope)) addRow(`${waysOf(scope)[0]?.[0]}${scope}`, false)

  const own = input('own_scope', { placeholder: 'credentials.api.github' })
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true })
  const add = () => {
    const line = own.value.trim()
    const wrong = problemOf(line)
    problem.hidden = wrong === undefined
    if (wrong !== undefined) {
      fill(problem, wrong)
      own.focus()
      return
    }
    if (!rows.some((row) => row.lines().includes(line))) addRow(line, true)
    own.value = ''
    showCounts()
  }
  own.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return
    // Enter here adds; it does not send the form.
    event.preventDefault()
    add()
  })

  const element = h(
    'fieldset',
    { class: 'scopes' },
    h('legend', {}, 'What it may use'),
    groups.map(([title]) => {
      const list = /** @type {HTMLElement} */ (lists.get(title))
      return h(
        'details',
        { class: 'scope-group', open: list.querySelector('input:checked') !== null },
        h('summary', {}, title, ' ', counts.get(title)),
        list,
      )
    }),
    h(
      'div',
      { class: 'own-scope' },
      field(
        'Another scope',
        own,
        'Your own names too: ask:custom.*, credentials.api.<provider>, address.shipping.<name>.',
      ),
      button('Add', add, { kind: 'small', name: 'Add this scope' }),
    ),
    problem,
  )
  element.addEventListener('change', showCounts)
  showCounts()
  return {
    element,
    // What was typed and not added was meant, too.
    lines: () => [...new Set([...rows.flatMap((row) => row.lines()), ...[own.value.trim()].filter(Boolean)])],
  }

  /** @param {string} line @param {boolean} isChosen */
  function addRow(line, isChosen) {
    const { before, scope } = splitGrant(line)
    const title = titleOfScope(scope)
    /** @type {(readonly [string, string])[]} */
    const ways = [...waysOf(scope)]
    // A way that is not offered here is kept as it is.
    if (!ways.some(([way]) => way === before)) ways.push([before, `As written: ${line}`])
    const box = h('input', { type: 'checkbox', checked: isChosen })
    const way = choice('way', ways, before)
    way.setAttribute('aria-label', `How it may use ${scope}`)
    const loud =
      kindOfScope(scope) === 'credential'
        ? h(
            'p',
            { class: 'loud', role: 'alert', hidden: true },
            icon('warning'),
            'The agent gets the secret itself and can keep it. Take “Use it in calls” where that is enough.',
          )
        : null
    const show = () => {
      way.disabled = !box.checked
      if (loud !== null) loud.hidden = !(box.checked && isLoud(`${way.value}${scope}`))
    }
    box.addEventListener('change', show)
    way.addEventListener('change', show)
    show()
    const group =
      groups.find(([, firsts]) => firsts.includes(scope.split('.', 1)[0] ?? ''))?.[0] ?? groups[4]?.[0]
    lists
      .get(group ?? '')
      ?.append(
        h(
          'div',
          { class: 'scope-row' },
          h('label', {}, box, h('span', {}, title === undefined ? null : `${title} `, h('code', {}, scope))),
          way,
          loud,
        ),
      )
    rows.push({ scope, lines: () => (box.checked ? [`${way.value}${scope}`] : []) })
    const details = lists.get(group ?? '')?.parentElement
    if (isChosen && details instanceof HTMLDetailsElement) details.open = true
  }

  function showCounts() {
    for (const [title] of groups) {
      const chosen = lists.get(title)?.querySelectorAll('input:checked').length ?? 0
      const count = counts.get(title)
      if (count !== undefined) fill(count, chosen === 0 ? '' : `${chosen} chosen`)
    }
  }
}
