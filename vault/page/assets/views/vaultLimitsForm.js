/** @import { VaultLimit } from '../../../host/ownerRules.ts' */
/** @import { Asset } from './budget.js' */
import { choice, field, input } from '../fields.js'
import { button, h } from '../html.js'
import { chainTitle } from '../words.js'

/**
 * Limits over all agents together, as rows of a form.
 *
 * @param {readonly Asset[]} assets @param {readonly VaultLimit[]} limits
 * @returns {{ element: HTMLElement, read: () => VaultLimit[] }} `read` leaves out rows in which nothing was filled in
 */
export function createVaultLimits(assets, limits) {
  const rows = h(
    'div',
    { class: 'limit-rows' },
    limits.map((limit) => rowOf(assets, limit)),
  )
  if (limits.length === 0) rows.append(rowOf(assets))
  const add = button(
    'Add a limit',
    () => {
      const row = rowOf(assets)
      rows.append(row)
      row.querySelector('select')?.focus()
    },
    { kind: 'small', icon: 'plus' },
  )
  const element = h(
    'div',
    {},
    h(
      'p',
      { class: 'muted' },
      'They hold for everything that leaves this vault, whichever agent asks, and beside each agent’s own policy. What is above them is refused.',
    ),
    rows,
    h('div', { class: 'below-rows' }, add),
  )
  return { element, read: () => [...rows.children].map(read).filter((limit) => limit !== undefined) }
}

/** @param {readonly Asset[]} assets @param {VaultLimit} [limit] */
function rowOf(assets, limit) {
  /** @type {[string, string][]} */
  const options = assets.map(({ chain, symbol }) => [
    `${chain} ${symbol}`,
    `${symbol} on ${chainTitle(chain)}`,
  ])
  const mine = limit === undefined ? 'base USDC' : `${limit.chain} ${limit.symbol}`
  // One that is not offered here any more is kept as it is.
  if (!options.some(([value]) => value === mine)) options.push([mine, mine])
  const amount = (/** @type {string} */ name, /** @type {string | undefined} */ value) =>
    input(name, { inputmode: 'decimal', value: value ?? '', placeholder: 'No limit' })
  const row = h(
    'fieldset',
    { class: 'limit-row vault-limit' },
    h('legend', { class: 'visually-hidden' }, 'A limit over all agents'),
    field('Asset', choice('asset', options, mine)),
    field('At most at once', amount('perTransaction', limit?.perTransaction)),
    field('At most a day', amount('perDay', limit?.perDay)),
    field('Only to', input('recipient', { value: limit?.recipient ?? '', placeholder: 'Anybody' })),
    button('Remove', () => row.remove(), { kind: 'small quiet', name: 'Remove this limit' }),
  )
  return row
}

/** @param {Element} row @returns {VaultLimit | undefined} */
function read(row) {
  const value = (/** @type {string} */ name) =>
    /** @type {HTMLInputElement | null} */ (row.querySelector(`[name="${name}"]`))?.value.trim() ?? ''
  const [chain = '', symbol = ''] = value('asset').split(' ')
  const given = ['perTransaction', 'perDay', 'recipient']
    .map((name) => [name, value(name)])
    .filter(([, text]) => text !== '')
  return given.length === 0 ? undefined : { chain, symbol, ...Object.fromEntries(given) }
}
