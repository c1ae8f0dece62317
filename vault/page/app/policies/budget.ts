import { formatAmount } from '../../../../core/domain/money.ts'
import { html } from '../../../../web/html.ts'
import { useLoad } from '../../../../web/shell/load.ts'
import type { ApprovalView } from '../../../approvals/approval.ts'
import type { BudgetLine } from '../../../host/api/insightApi.ts'
import { call } from '../session.ts'
import { chainTitle } from '../words.ts'

export interface Asset {
  readonly id: string
  readonly chain: string
  readonly symbol: string
  readonly decimals: number
}

let known: Promise<readonly Asset[]> | undefined

/** The assets that rules can name. They are requested once. */
export function assetsOf(): Promise<readonly Asset[]> {
  known ??= call<{ assets: readonly Asset[] }>('GET', '/assets').then(({ assets }) => assets)
  known.catch(() => (known = undefined))
  return known
}

/**
 * The agent's usage today of the approval's asset, and its limit. The space is reserved while it loads, so that nothing below
 * moves.
 */
export function Budget({ agent, currency, chain }: ApprovalView) {
  const loaded = useLoad(async () => {
    const path = `/budget?agent=${encodeURIComponent(agent)}`
    const [{ budget }, assets] = await Promise.all([
      call<{ budget: readonly BudgetLine[] }>('GET', path),
      assetsOf(),
    ])
    const asset = assets.find((one) => one.chain === chain && one.symbol === currency)
    return { asset, line: budget.find((one) => one.asset === asset?.id) }
  }, [])
  const { asset, line } = loaded.data ?? {}
  if (loaded.fault !== undefined) return lineOf('The budget could not be loaded.')
  if (loaded.data === undefined) return lineOf('…')
  if (asset === undefined || line === undefined)
    return lineOf(`No rule limits ${currency ?? ''} on ${chainTitle(chain ?? '')}.`)
  const { spent, reserved, given_back, per_day } = line
  const used = BigInt(spent) + BigInt(reserved)
  const limit = per_day === null ? '' : ` of ${formatAmount(BigInt(per_day), asset.decimals)}`
  const words = `${formatAmount(used, asset.decimals)}${limit} ${asset.symbol}`
  const percent = per_day === null || per_day === '0' ? 0 : Number((used * 100n) / BigInt(per_day))
  return lineOf(
    html`${words} on ${chainTitle(asset.chain)}${reserved !== '0' && html`<span class="soft">, including open requests</span>`}${given_back !== '0' && html`<span class="soft">. Not counted: ${formatAmount(BigInt(given_back), asset.decimals)} ${asset.symbol}, given back today</span>`}`,
    per_day !== null &&
      html`<meter min="0" max="100" high="80" value=${Math.min(100, percent)} aria-label=${words}></meter>`,
  )
}

const lineOf = (words: unknown, meter: unknown = null) =>
  html`<p>${words}</p><div class="vault-meter">${meter}</div>`
