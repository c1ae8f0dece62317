import t, { type Test } from 'tap'
import { openTestStore } from '../../test/helpers/store/testStore.ts'
import type { Channel, ChannelId, ChannelOnChain } from '../domain/channel.ts'
import type { ChannelChain } from '../ports/chains/channelChain.ts'
import { systemClock } from '../ports/clock.ts'
import { silentLog as log } from '../ports/log.ts'
import { ChannelBook } from './channelBook.ts'
import { ChannelWatch } from './channelWatch.ts'

const network = 'eip155:84532'
const authorizers = [`0x${'44'.repeat(20)}`, `0x${'45'.repeat(20)}`] as const
const config = {
  payer: `0x${'11'.repeat(20)}`,
  payerAuthorizer: `0x${'22'.repeat(20)}`,
  receiver: `0x${'33'.repeat(20)}`,
  receiverAuthorizer: authorizers[0],
  token: `0x${'55'.repeat(20)}`,
  withdrawDelay: 3_600,
  salt: `0x${'66'.repeat(32)}`,
}
const state: ChannelOnChain = {
  balance: 100n,
  totalClaimed: 0n,
  pendingWithdrawal: 0n,
  withdrawRequestedAtSeconds: 0,
  refundNonce: 0n,
}
const idOf = (n: number): ChannelId => `0x${n.toString(16).padStart(64, '0')}`

/**
 * A watch over channels that are all due, of which some have a requested withdrawal.
 *
 * @param onClaim called for each claim, before its block
 */
async function startWatch(
  t: Test,
  count: number,
  withdrawals: ReadonlySet<ChannelId>,
  onClaim: () => void = () => undefined,
) {
  const { leases, mailbox, channels } = openTestStore()
  const lease = { current: (await leases.take('gateway', 60_000))! }
  const owner = lease.current.id
  for (let n = 0; n < count; n++) {
    const receiverAuthorizer = authorizers[n < count / 2 ? 0 : 1]
    const channel: Channel = {
      ...state,
      id: idOf(n),
      network,
      storeId: 'store',
      config: { ...config, receiverAuthorizer },
      charged: 0n,
      signed: 0n,
      signature: null,
      published: null,
    }
    await channels.open(channel, owner)
    await channels.charge({
      id: channel.id,
      owner,
      network,
      asset: config.token,
      storeId: 'store',
      linkId: 'link',
      amountAtomic: 10n,
      before: 0n,
      signed: 10n,
      voucherTotal: 10n,
      signature: `0x${'77'.repeat(65)}`,
      requestHash: 'request',
      identifier: null,
      response: null,
    })
  }
  const claims: ChannelId[][] = []
  const claimed = new Set<ChannelId>()
  const chain: Partial<ChannelChain> = {
    network,
    signsFor: () => true,
    read: async (ids) =>
      ids.map((id) => ({
        ...state,
        totalClaimed: claimed.has(id) ? 10n : 0n,
        pendingWithdrawal: withdrawals.has(id) ? 50n : 0n,
      })),
    claim: async (batch) => {
      onClaim()
      claims.push(batch.map(({ id }) => id))
      for (const { id } of batch) claimed.add(id)
      return { status: 'done', transaction: '0x01' }
    },
  }
  const book = new ChannelBook({ channels, lease, mailbox, log })
  t.teardown(() => book.close())
  const watch = new ChannelWatch({
    network: {
      chain: chain as ChannelChain,
      withdrawDelaySeconds: 3_600,
      minDeposit: '0.1',
      claimAmount: '0',
      claimAfterMs: 0,
      watchMs: 60_000,
    },
    book,
    channels,
    assets: [],
    clock: systemClock,
    log,
    claims: () => true,
  })
  t.teardown(() => watch.close())
  return { watch, claims }
}

t.test('channels with a requested withdrawal are claimed before all others', async (t) => {
  // The last ones of both authorizers, whose channels cannot share a claim.
  const withdrawals = new Set([idOf(51), idOf(103)])
  const { watch, claims } = await startWatch(t, 104, withdrawals)
  await watch.runNow()
  t.same(claims.slice(0, 2).flat(), [...withdrawals])
  t.equal(new Set(claims.flat()).size, 104)
})

t.test('a withdrawal that is requested during many claims is seen in time', async (t) => {
  const withdrawals = new Set<ChannelId>()
  const realNow = performance.now.bind(performance)
  let laterMs = 0
  performance.now = () => realNow() + laterMs
  t.teardown(() => {
    performance.now = realNow
  })
  // Each claim waits five minutes for its block. The withdrawal is requested during the first one.
  const { watch, claims } = await startWatch(t, 600, withdrawals, () => {
    laterMs += 300_000
    withdrawals.add(idOf(599))
  })
  while (!claims.flat().includes(idOf(599))) await watch.runNow()
  t.ok(laterMs <= 1_200_000, `claimed after ${laterMs} ms of the 3,600,000 that a withdrawal takes`)
})
