import t, { type Test } from 'tap'
import { testClock } from '../../test/contracts/samples.ts'
import { openTestStore } from '../../test/helpers/store/testStore.ts'
import { type ChannelOnChain, withState } from '../domain/channel.ts'
import type { ServedLink } from '../domain/link.ts'
import type { NetworkId } from '../domain/network.ts'
import type { ChannelChain } from '../ports/chains/channelChain.ts'
import { silentLog as log } from '../ports/log.ts'
import type { Channels } from '../ports/store/channels.ts'
import type { ChannelPayment } from '../x402/channelPayment.ts'
import { ChannelCall } from './channelCall.ts'
import { ChannelCalls } from './channelCalls.ts'
import type { ChannelNetwork, ChannelOffer } from './offers.ts'

const hex = (byte: string, bytes: number): string => `0x${byte.repeat(bytes)}`
const network: NetworkId = 'eip155:84532'
const id = hex('ab', 32)
const config = {
  payer: hex('11', 20),
  payerAuthorizer: hex('22', 20),
  receiver: hex('33', 20),
  receiverAuthorizer: hex('44', 20),
  token: hex('55', 20),
  withdrawDelay: 3_600,
  salt: hex('66', 32),
}
const link = { id: 'link', storeId: 'store' } as Partial<ServedLink> as ServedLink
const signature = hex('77', 65)
const deposited: ChannelOnChain = {
  balance: 100n,
  totalClaimed: 0n,
  pendingWithdrawal: 0n,
  withdrawRequestedAtSeconds: 0,
  refundNonce: 0n,
}

/** A process with a channel of which the contract is read again while its row is written. */
async function startReading(t: Test, state: ChannelOnChain, later: ChannelOnChain, clock = testClock()) {
  const { leases, mailbox, channels: stored } = openTestStore({ clock })
  let now = state
  const chain = {
    network,
    authorizer: config.receiverAuthorizer,
    channelId: () => id,
    isSigned: () => true,
    read: async (ids) => ids.map(() => now),
    deposit: async () => {
      now = deposited
      return { status: 'done', transaction: hex('cc', 32) }
    },
  } as Partial<ChannelChain> as ChannelChain
  const channels: Channels = {
    ...stored,
    async open(channel, owner) {
      const owned = await stored.open(channel, owner)
      now = later
      await calls.book.read([...calls.book.all], chain)
      return owned
    },
  }
  const lease = { current: (await leases.take('gateway', 60_000))! }
  const offered = { chain, withdrawDelaySeconds: config.withdrawDelay } as Partial<ChannelNetwork>
  const networks = new Map<NetworkId, ChannelNetwork>([[network, offered as ChannelNetwork]])
  const calls = new ChannelCalls({ channels, networks, lease, mailbox, log })
  t.teardown(() => calls.close())
  const call = (type: ChannelPayment['type'], maxClaimable = 10n) => {
    const offer = {
      channels: offered,
      priceAtomic: 10n,
      minDepositAtomic: 10n,
      terms: { scheme: 'batch-settlement', asset: config.token, extra: {} },
      receiver: config.receiver,
      token: config.token,
    } as Partial<ChannelOffer> as ChannelOffer
    const validBefore = BigInt(Math.floor(Date.now() / 1_000) + 300)
    const deposit = { amount: 100n, validAfter: 0n, validBefore, salt: 1n, signature }
    return new ChannelCall(
      offer,
      {
        type,
        config,
        channelId: id,
        maxClaimable,
        signature,
        deposit: type === 'deposit' ? deposit : null,
        refundAmount: null,
      },
      'request',
      null,
      { id: 'call', reviewToken: '', wrap: null, headers: [] },
    )
  }
  return { calls, call, stored, lease }
}

t.test(
  'a new channel sells nothing if the contract has no money for it once its row is written',
  async (t) => {
    const none = { ...deposited, balance: 0n }
    const { calls, call } = await startReading(t, none, none)
    const first = call('deposit')
    await t.rejects(calls.admit(first, link) as Promise<unknown>, { code: 'settlement_pending' })
    calls.end(first)
    const withdrawn = await startReading(t, deposited, { ...deposited, pendingWithdrawal: 95n })
    await t.rejects(withdrawn.calls.admit(withdrawn.call('voucher'), link) as Promise<unknown>, {
      message: /at most 5 atomic units/,
    })
  },
)

t.test('what was read of a new channel while its row was written reaches the row', async (t) => {
  const { calls, call, stored, lease } = await startReading(t, deposited, {
    ...deposited,
    pendingWithdrawal: 80n,
  })
  t.equal(await calls.admit(call('voucher'), link), undefined)
  t.match(await stored.take(id, lease.current.id), { channel: { balance: 100n, pendingWithdrawal: 80n } })
})

t.test(
  'a call that has cost nothing is a new one after five seconds, also if its row was taken again',
  async (t) => {
    const response = {
      status: 200,
      headers: [],
      mediaType: 'text/plain',
      body: new Uint8Array(),
      receipt: 'receipt',
    }
    for (const [laterMs, known] of [
      [4_000, { receipt: 'receipt' }],
      [6_000, undefined],
    ] as const) {
      const clock = testClock()
      const { calls, call } = await startReading(t, deposited, deposited, clock)
      const first = call('voucher')
      t.equal(await calls.admit(first, link), undefined)
      await calls.charge(first, link, response, 0n)
      for (const open of calls.book.all) calls.book.drop(open)
      clock.nowMs += laterMs
      t.match(await calls.admit(call('voucher'), link), known as object)
    }
  },
)

t.test(
  'the last call is repeated from its response although a claim of the one before is seen only then',
  async (t) => {
    const { calls, call } = await startReading(t, deposited, deposited)
    const response = {
      status: 200,
      headers: [],
      mediaType: 'text/plain',
      body: new Uint8Array(),
      receipt: 'receipt',
    }
    for (const maxClaimable of [10n, 20n]) {
      const one = call('voucher', maxClaimable)
      t.equal(await calls.admit(one, link), undefined)
      await calls.charge(one, link, response, 10n)
    }
    const [open] = calls.book.all
    open!.channel = withState(open!.channel, { ...deposited, totalClaimed: 10n })
    t.match(await calls.admit(call('voucher', 20n), link), { receipt: 'receipt' })
    t.throws(
      () => calls.admit(call('voucher', 10n), link),
      { code: 'invalid_payment' },
      'a claimed one buys nothing',
    )
  },
)
