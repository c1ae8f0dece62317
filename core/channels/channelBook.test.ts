import t, { type Test } from 'tap'
import { until } from '../../test/helpers/rawHttp.ts'
import { openTestStore } from '../../test/helpers/store/testStore.ts'
import type { ChannelOnChain } from '../domain/channel.ts'
import type { ChannelChain } from '../ports/chains/channelChain.ts'
import { silentLog as log } from '../ports/log.ts'
import type { Mailbox } from '../ports/store/mailbox.ts'
import { ChannelBook } from './channelBook.ts'
import type { OpenChannel } from './openChannel.ts'

const hex = (byte: string, bytes: number): string => `0x${byte.repeat(bytes)}`
const fresh = {
  id: hex('ab', 32),
  network: 'eip155:84532',
  storeId: 'store',
  config: {
    payer: hex('11', 20),
    payerAuthorizer: hex('22', 20),
    receiver: hex('33', 20),
    receiverAuthorizer: hex('44', 20),
    token: hex('55', 20),
    withdrawDelay: 3_600,
    salt: hex('66', 32),
  },
} as const
const turnOf = (requestHash: string, base = 0n) => ({ base, requestHash })

/** Two processes of one database, of which the first has a channel. */
async function startTwo(t: Test, mailboxOf = (mailbox: Mailbox) => mailbox) {
  const { leases, mailbox, channels } = openTestStore()
  // Messages alone do not keep a process running. A gateway has its sockets.
  const running = setInterval(() => undefined, 60_000)
  t.teardown(() => clearInterval(running))
  const state: ChannelOnChain = {
    balance: 100n,
    totalClaimed: 0n,
    pendingWithdrawal: 0n,
    withdrawRequestedAtSeconds: 0,
    refundNonce: 0n,
  }
  let reads = 0
  const read = async (ids: readonly string[]) => {
    reads++
    return ids.map(() => state)
  }
  const chain = { read } as Partial<ChannelChain> as ChannelChain
  let received = 0
  const counted = (own: Mailbox): Mailbox => ({
    ...own,
    listen: (to, onMessage) =>
      own.listen(to, (message) => {
        onMessage(message)
        received++
      }),
  })
  const start = async (name: string) => {
    const lease = { current: (await leases.take(name, 60_000))! }
    const book = new ChannelBook({ channels, lease, mailbox: mailboxOf(counted(mailbox)), log })
    t.teardown(() => book.close())
    const take = async (requestHash: string, base = 0n) => {
      const taken = await book.take(fresh, chain, turnOf(requestHash, base), performance.now() + 10_000)
      if (taken === 'busy') throw new Error('busy')
      return taken
    }
    return { lease, book, take }
  }
  const [first, second] = [await start('first'), await start('second')]
  const open = await first.take('a')
  await first.book.store(open)
  return { first, second, open, leases, channels, reads: () => reads, received: () => received }
}

t.test(
  'a channel is handed over as soon as no call is in progress, with the newest state in the row',
  async (t) => {
    const { first, second, open, channels, reads } = await startTwo(t)
    open.hold()
    const taking = second.take('b')
    const waiting = open.wait(turnOf('c', 5n), performance.now() + 10_000)
    // The watch of the second process has read a withdrawal that the first does not know.
    await channels.update(fresh.id, { ...open.channel, pendingWithdrawal: 90n })
    open.release()
    t.equal(await waiting, 'held', 'a call that waits there already comes first')
    open.release()
    const taken = await taking
    t.equal(taken.maxTotal, 10n)
    t.equal(reads(), 1, 'the contract is not read again')
    t.ok(open.isDropped)
    t.equal(first.book.find(fresh.id), undefined)
    t.same(await channels.take(fresh.id, first.lease.current.id), { ownedBy: second.lease.current.id })
  },
)

t.test('calls that wait at the former owner take the channel back', async (t) => {
  const { first, second, open, received } = await startTwo(t)
  open.hold()
  const taking = second.take('b')
  const late = second.take('c')
  await until(async () => received() > 0)
  const waiting = open.wait(turnOf('a', 5n), performance.now() + 10_000)
  open.release()
  t.equal(await waiting, 'dropped')
  const there = await taking
  t.equal(await late, there)
  t.equal((await first.take('a')).isDropped, false)
  t.ok(there.isDropped)
})

t.test('the repeat of a corrected call gets the channel, and other calls wait', async (t) => {
  const { second, open } = await startTwo(t)
  const order: string[] = []
  const taking = ['other', 'repeat'].map((hash) => {
    open.hold()
    return second.take(hash).then((taken) => {
      order.push(hash)
      return taken
    })
  })
  open.release(turnOf('repeat'))
  await Promise.all(taking)
  t.same(order, ['repeat', 'other'])
})

t.test('a message that is lost delays the handover, and does not prevent it', async (t) => {
  let lost = 0
  const lossy = (mailbox: Mailbox): Mailbox => ({
    ...mailbox,
    post: async (messages) => (++lost <= 2 ? undefined : mailbox.post(messages)),
  })
  const { second, reads } = await startTwo(t, lossy)
  t.equal((await second.take('b')).channel.balance, 100n)
  t.ok(lost >= 3)
  t.ok(reads() <= 2, 'without the state of the former owner, the contract is read')
})

t.test('the channel of a process that has ended is taken', async (t) => {
  const { first, second, leases } = await startTwo(t, (mailbox) => ({ ...mailbox, post: async () => {} }))
  const taking = second.take('b')
  await leases.release(first.lease.current)
  t.match(await taking, { isDropped: false } satisfies Partial<OpenChannel>)
})

t.test('a process that has not kept a channel in memory gives it away', async (t) => {
  const { first, second, open } = await startTwo(t)
  first.book.drop(open)
  t.equal((await second.take('b')).channel.balance, 100n)
})

t.test('a process that was paused until another one took its channel refunds nothing of it', async (t) => {
  const { first, second, open, leases, channels } = await startTwo(t)
  open.hold()
  await leases.release(first.lease.current)
  await second.take('b')
  t.equal(await first.book.noteRefund(open, { nonce: 0n, amount: 90n }), false)
  t.ok(open.isDropped)
  t.match(await channels.take(fresh.id, second.lease.current.id), { refund: null })
})
