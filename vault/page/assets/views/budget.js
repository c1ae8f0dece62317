/** @import { BudgetLine } from '../../../host/vaultApi.ts' */
/** @import { ApprovalView } from '../../../approvals/approval.ts' */
import { h } from '../html.js'
import { call } from '../session.js'
import { chainTitle, wholeUnits } from '../words.js'

/** @typedef {{ id: string, chain: string, symbol: string, decimals: number, native: boolean }} Asset */

/** @type {Promise<readonly Asset[]> | undefined} */
let known

/** The assets that rules can name; asked for once. @returns {Promise<readonly Asset[]>} */
export function assetsOf() {
  known ??= call('GET', '/assets').then(({ assets }) => assets)
  known.catch(() => (known = undefined))
  return known
}

/**
 * What the agent used today of the asset that this question is about, and of what it has. Its room is kept while the vault
 * is asked, so that nothing below moves.
 *
 * @param {string} agent @param {ApprovalView} approval
 */
export function budgetLines(agent, { amount, currency, chain }) {
  if (amount === null) return null
  const title = h('h3', {}, 'Budget today')
  const about = `${currency ?? ''} on ${chainTitle(chain ?? '')}`
  const waits = h('div', { class: 'budget-line', 'aria-busy': 'true' }, h('span', {}, '…'), room())
  const section = h('section', { class: 'part budget' }, title, waits)
  void Promise.all([call('GET', `/budget?agent=${encodeURIComponent(agent)}`), assetsOf()]).then(
    ([{ budget }, assets]) => {
      const asset = assets.find((one) => one.chain === chain && one.symbol === currency)
      const line = /** @type {BudgetLine[]} */ (budget).find((one) => one.asset === asset?.id)
      if (asset === undefined || line === undefined) waits.replaceWith(unlimited(`No rule limits ${about}.`))
      else waits.replaceWith(budgetLine(line, asset))
    },
    () => waits.replaceWith(unlimited('It could not be read.')),
  )
  return section
}

const room = () => h('span', { class: 'meter-room' })
/** @param {string} words */
const unlimited = (words) => h('div', { class: 'budget-line' }, h('span', { class: 'muted' }, words), room())

/** @param {BudgetLine} line @param {Asset} asset */
export function budgetLine({ spent, reserved, per_day }, { symbol, chain, decimals }) {
  const used = BigInt(spent) + BigInt(reserved)
  const words = `${wholeUnits(String(used), decimals)}${per_day === null ? '' : ` of ${wholeUnits(per_day, decimals)}`} ${symbol}`
  const percent = per_day === null || per_day === '0' ? 0 : Number((used * 100n) / BigInt(per_day))
  return h(
    'div',
    { class: 'budget-line' },
    h(
      'span',
      {},
      words,
      ' on ',
      chainTitle(chain),
      reserved === '0' ? null : h('span', { class: 'muted' }, ', what waits for you included'),
    ),
    per_day === null
      ? room()
      : h('meter', { min: 0, max: 100, value: Math.min(100, percent), high: 80, 'aria-label': words }),
  )
}
