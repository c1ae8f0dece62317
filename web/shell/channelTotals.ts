import { Amount, NetworkBadge } from '../components/money.ts'
import { html } from '../html.ts'

/** The sums of payment channels in one token, of one store or of all. */
export interface ChannelTotalsResponse {
  readonly currency: string
  readonly network: string
  readonly calls: number
  readonly earned: string
  readonly claimed: string
  readonly unclaimed: string
  readonly writtenOff: string
  readonly notPaidOut: string
}

/** Tiles with what channels have earned, by token. */
export const ChannelTotals = ({ totals }: { readonly totals: readonly ChannelTotalsResponse[] }) =>
  totals.map(
    (one) => html`<div class="shell-channel-totals">
      ${totals.length > 1 && html`<p><${NetworkBadge} network=${one.network} /></p>`}
      <dl class="shell-tiles">
        <${Tile} title="Earned" value=${one.earned} currency=${one.currency} />
        <${Tile} title="Claimed" value=${one.claimed} currency=${one.currency} />
        ${Number(one.notPaidOut) > 0 && html`<${Tile} title="Not paid out" value=${one.notPaidOut} currency=${one.currency} />`}
        <${Tile} title="Unclaimed" value=${one.unclaimed} currency=${one.currency} />
        ${Number(one.writtenOff) > 0 && html`<${Tile} title="Written off" value=${one.writtenOff} currency=${one.currency} />`}
      </dl>
    </div>`,
  )

interface TileProps {
  readonly title: string
  readonly value: string
  readonly currency: string
}

const Tile = ({ title, value, currency }: TileProps) =>
  html`<div class="shell-tile"><dt>${title}</dt><dd><span class="shell-figure"><${Amount} value=${value} currency=${currency} /></span></dd></div>`
