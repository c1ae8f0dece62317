/** @import { BudgetLine } from '../../../host/vaultApi.ts' */
/** @import { ApprovalView } from '../../../approvals/approval.ts' */
import { fill, h } from '../html.js'
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
 * What the agent used today of the asset that this question is about, and of what it has.
 *
 * @param {string} agent @param {ApprovalView} approval
 */
export function budgetLines(agent, { amount, currency, chain }) {
  const section = h('section', { class: 'part budget', hidden: true })
  if (amount === null) return section
  void Promise.all([call('GET', `/budget?agent=${encodeURIComponent(agent)}`), assetsOf()]).then(
    ([{ budget }, assets]) => {
      const asset = assets.find((one) => one.chain === chain && one.symbol === currency)
      const line = /** @type {BudgetLine[]} */ (budget).find((one) => one.asset === asset?.id)
      if (asset === undefined || line === undefined) return
      fill(section, h('h3', {}, 'Budget today'), budgetLine(line, asset))
      section.hidden = false
    },
    () => {},
  )
  return section
}

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
      ? null
      : h('meter', { min: 0, max: 100, value: Math.min(100, percent), high: 80, 'aria-label': words }),
  )
}
