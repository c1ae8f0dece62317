import type { FastifyInstance } from 'fastify'
import type { Asset } from '../../core/domain/asset.ts'
import { unclaimed, writtenOff } from '../../core/domain/channel.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { chainNameOf, type NetworkId } from '../../core/domain/network.ts'
import { checksumAddress } from '../../core/evm/hex.ts'
import type {
  ChannelAccount,
  ChannelBooks,
  ChannelDebt,
  ChannelPayoutsDue,
} from '../../core/ports/store/channelBooks.ts'
import type { ChannelEarnings, Channels } from '../../core/ports/store/channels.ts'
import type { Api } from '../deps.ts'
import { callerOf } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import {
  exactly,
  field,
  isoTime,
  listOf,
  nextLink,
  ok,
  paging,
  prefersCsv,
  respond,
  success,
  toCsv,
} from '../http/responses.ts'

const unit = {
  currency: field.text(),
  chain: { enum: ['base', 'solana'] },
  network: field.text('CAIP-2.'),
  asset: field.text(),
}

const sums = {
  calls: field.count,
  earned: field.text('The total of the calls that were charged. Deposits are not included.'),
  claimed: field.text('The part of earned that was claimed on chain. You owe the fee on this part.'),
  unclaimed: field.text('The part of earned that the next claims will pay to your wallet.'),
  writtenOff: field.text(
    'The part of earned that cannot be claimed, because the buyer has withdrawn the balance.',
  ),
}

export const channelTotals = exactly({
  ...unit,
  ...sums,
  notPaidOut: field.text(
    'What was claimed and is still in the contract, when the gateway last read it. The next claim pays it to your wallet.',
  ),
})

const channelSchema = exactly({
  id: field.text('The id of the channel, as in the contract.'),
  payer: field.text("The buyer's wallet."),
  receiver: field.text('Your wallet, to which claims pay.'),
  ...unit,
  ...sums,
  balance: field.text('The deposits minus refunds and withdrawals. Claims do not lower it.'),
  withdrawing: field.text(
    'The amount that the buyer has requested to withdraw. 0.00 if there is no request.',
  ),
  problem: field.textOrNull('Why the channel cannot be claimed now. Null if it can.'),
  openedAt: field.time,
})

/** The unit of a token in responses. A token that is not configured any more is shown in its smallest unit. */
function unitOf(assets: readonly Asset[], network: NetworkId, token: string) {
  const asset = assets.find(
    (one) => one.network === network && one.address.toLowerCase() === token.toLowerCase(),
  )
  return {
    decimals: asset?.decimals ?? 0,
    currency: asset?.symbol ?? token,
    asset: asset?.address ?? token,
  }
}

/**
 * The sums of channels by token, for their seller or, over all stores, for the operator.
 *
 * @param storeId undefined for all stores
 */
export async function channelTotalsOf(
  {
    channels,
    channelBooks,
    assets,
  }: {
    readonly channels: Pick<Channels, 'earnings'>
    readonly channelBooks: Pick<ChannelBooks, 'debts' | 'payoutsDue'>
    readonly assets: readonly Asset[]
  },
  storeId?: string,
) {
  const [earnings, debts, payouts] = await Promise.all([
    channels.earnings(storeId),
    channelBooks.debts(storeId),
    channelBooks.payoutsDue(storeId),
  ])
  return earnings.map((one) => totalsView(assets, one, debts, payouts))
}

function totalsView(
  assets: readonly Asset[],
  earned: ChannelEarnings,
  debts: readonly ChannelDebt[],
  payouts: readonly ChannelPayoutsDue[],
) {
  const { network, asset: token, calls, chargedAtomic, claimedAtomic } = earned
  const { decimals, currency, asset } = unitOf(assets, network, token)
  const isSame = (one: ChannelPayoutsDue | ChannelDebt) => one.network === network && one.token === token
  const debt = debts.find(isSame)
  const amount = (atomic: bigint) => formatAmount(atomic, decimals, 2)
  return {
    currency,
    chain: chainNameOf(network),
    network,
    asset,
    calls,
    earned: amount(chargedAtomic),
    claimed: amount(claimedAtomic),
    unclaimed: amount(debt?.unclaimedAtomic ?? 0n),
    writtenOff: amount(debt?.writtenOffAtomic ?? 0n),
    notPaidOut: amount(payouts.find(isSame)?.dueAtomic ?? 0n),
  }
}

export function toChannelView(assets: readonly Asset[], account: ChannelAccount) {
  const { channel, openedAtMs, calls, earnedAtomic, claimedAtomic, parkedReason } = account
  const { id, network, config, balance, pendingWithdrawal } = channel
  const { decimals, currency, asset } = unitOf(assets, network, config.token)
  const amount = (atomic: bigint) => formatAmount(atomic, decimals, 2)
  return {
    id,
    payer: checksumAddress(config.payer),
    receiver: checksumAddress(config.receiver),
    currency,
    chain: chainNameOf(network),
    network,
    asset,
    calls,
    earned: amount(earnedAtomic),
    claimed: amount(claimedAtomic),
    unclaimed: amount(unclaimed(channel)),
    writtenOff: amount(writtenOff(channel)),
    balance: amount(balance),
    withdrawing: amount(pendingWithdrawal),
    problem: parkedReason,
    openedAt: isoTime(openedAtMs),
  }
}

type ChannelView = ReturnType<typeof toChannelView>

const csvColumns = [
  'id',
  'openedAt',
  'payer',
  'receiver',
  'calls',
  'earned',
  'claimed',
  'unclaimed',
  'writtenOff',
  'balance',
  'withdrawing',
  'currency',
  'chain',
  'network',
  'asset',
  'problem',
] as const satisfies readonly (keyof ChannelView)[]

/** `GET /api/v1/channels`: the payment channels that pay the caller's store. */
export function channelRoutes(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: Infer<typeof paging.query> }>(
    '/api/v1/channels',
    {
      schema: {
        summary: 'List the payment channels',
        description:
          'Lists the channels that buyers have opened to your store, newest first, and their totals by currency. Calls that are paid by a channel are not purchases. They count in the statistics. With Accept: text/csv, the response is a table, and the Link header has the address of the next page.',
        querystring: paging.query,
        response: respond(
          {
            200: success(
              exactly({
                totals: {
                  ...listOf(channelTotals),
                  description: 'The totals of all channels of your store.',
                },
                channels: listOf(channelSchema),
                nextCursor: paging.next,
              }),
            ),
          },
          [400, 401, 429],
        ),
      },
    },
    async (request, reply) => {
      const { limit, cursor } = request.query
      const storeId = callerOf(request).store.id
      const page = await api.channelBooks.page(storeId, { limit, ...(cursor !== undefined && { cursor }) })
      const channels = page.accounts.map((account) => toChannelView(api.assets, account))
      reply.header('vary', 'Accept')
      if (page.nextCursor !== null)
        reply.header('link', nextLink(api, '/api/v1/channels', { cursor: page.nextCursor, limit }))
      if (prefersCsv(request.headers.accept))
        return reply
          .type('text/csv; charset=utf-8; header=present')
          .header('content-disposition', 'attachment; filename="channels.csv"')
          .send(toCsv(csvColumns, channels))
      const totals = await channelTotalsOf(api, storeId)
      return ok({ totals, channels, nextCursor: page.nextCursor })
    },
  )
}
