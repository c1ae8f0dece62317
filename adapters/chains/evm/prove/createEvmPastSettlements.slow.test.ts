import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import type { PaymentKey } from '../../../../core/domain/payment.ts'
import type { PastQuestion } from '../../../../core/ports/chains/pastSettlements.ts'
import { sendUsdc } from '../../../../localnet/sendToken.fixture.ts'
import type { Hex } from '../rpc/hex.ts'
import { addressOfKey } from '../settle/signTransaction.ts'
import { newAccount, remember, seller, signPayment, startSettler, usdc } from '../settler.fixture.ts'
import { createEvmPastSettlements } from './createEvmPastSettlements.ts'

const network = 'eip155:84532'
const hourMs = 3_600_000

/** A chain on which a settler has sold, and who looks back at it. */
async function shop(t: Test) {
  const fixture = await startSettler(t, { sharedKeyMs: 0 })
  const { chain, settler, terms, settlingKey } = fixture
  const sender = addressOfKey(Buffer.from(settlingKey.slice(2), 'hex'))
  const sinceMs = Date.now() - hourMs
  /** What the books have. */
  const known = new Set<PaymentKey>()
  const numbers = new Set<number>()
  await settler.start([])

  /** @returns what they are, newest first, as they are to be found */
  async function sell(count: number, payTo = seller) {
    const own = { ...terms, payTo }
    const payments = await Promise.all(
      Array.from({ length: count }, async () => {
        const buyer = newAccount()
        await chain.mintUsdc(buyer.address, 10_000n)
        const payment = await signPayment(buyer, own)
        const checked = await settler.check(payment, own)
        if (!checked.ok) throw new Error(checked.message)
        const verified = await settler.verify(payment, own, checked.identity, { storeId: 's' })
        if (!verified.ok) throw new Error(verified.message)
        return { payment, identity: checked.identity, hold: verified.hold }
      }),
    )
    return Promise.all(
      payments.map(async ({ payment, identity, hold }) => {
        const outcome = await settler.settle(payment, own, identity, remember([]), hold)
        if (outcome.status !== 'settled') throw new Error(outcome.reason)
        return { key: identity.key, payer: identity.payer, transaction: outcome.transaction! }
      }),
    )
  }

  const question = (more: Partial<PastQuestion> = {}): PastQuestion => ({
    ...{ assets: [usdc.address], senders: [sender], sentAlike: [], payees: [seller], sinceMs },
    missingAmong: async (keys) => new Set(keys.filter((key) => !known.has(key))),
    unsoldAmong: async (transactions) => transactions,
    numbersOf: async () => (numbers.size === 0 ? undefined : numbers),
    ...more,
  })
  async function look(more: Partial<PastQuestion> = {}, rpcUrl = fixture.rpc.url) {
    const past = createEvmPastSettlements({ network, rpcUrls: [rpcUrl], rpcTimeoutMs: 5_000 })
    const verdict = await past.look(network, question(more))
    if (verdict.status !== 'looked') throw new Error(JSON.stringify(verdict))
    return { ...verdict, keys: verdict.missing.map(({ key }) => key).sort() }
  }
  return { ...fixture, sender, known, numbers, sinceMs, sell, look, question }
}

const keysOf = (sales: readonly { readonly key: PaymentKey }[]) => sales.map(({ key }) => key).sort()

/** Blocks that a node was asked for, and whether it answered. */
interface Asked {
  readonly from: number
  readonly to: number
  readonly isRefused: boolean
}

/** A node that answers some windows of events as providers refuse them. */
async function pickyNode(
  t: Test,
  upstream: string,
  refusal: (from: number, to: number) => { readonly status: number; readonly error?: object } | undefined,
) {
  const asked: Asked[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const body = JSON.parse(text)
    for (const { id, method, params } of [body].flat()) {
      if (method !== 'eth_getLogs') continue
      const [from, to] = [Number(params[0].fromBlock), Number(params[0].toBlock)]
      const refused = refusal(from, to)
      asked.push({ from, to, isRefused: refused !== undefined })
      if (refused === undefined) continue
      const answer = { jsonrpc: '2.0', id, error: refused.error }
      response.writeHead(refused.status, { 'content-type': 'application/json' })
      return response.end(refused.error && JSON.stringify(Array.isArray(body) ? [answer] : answer))
    }
    const answered = await fetch(upstream, {
      method: 'POST',
      body: text,
      headers: { 'content-type': 'application/json' },
    })
    return response.writeHead(200, { 'content-type': 'application/json' }).end(await answered.text())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

t.test(
  'what the books lack is found, alone and among others of its transaction, and nothing else',
  async (t) => {
    const { chain, settler, terms, pay, sell, look, known, sender, sinceMs } = await shop(t)
    const [alone] = await sell(1)
    const together = await sell(6)
    t.ok(new Set(together.map(({ transaction }) => transaction)).size < 6, 'in transactions of several')
    // What is no sale: a plain transfer, nothing at all, somebody else's authorisation, and one of ours that moved nothing.
    const friend = newAccount()
    await chain.mintUsdc(friend.address, 10_000n)
    await sendUsdc(chain, friend.address, seller as Hex, 10_000n)
    await sendUsdc(chain, friend.address, seller as Hex, 0n)
    const { payment, identity } = await pay()
    await chain.setBlacklisted(identity.payer as Hex, true)
    t.match(await settler.settle(payment, terms, identity, remember([])), { status: 'pending' })

    const all = [alone!, ...together]
    const found = await look()
    t.strictSame(found.keys, keysOf(all))
    t.match(found, { seen: 7, byOthers: 0, fromMs: sinceMs, numbers: { length: 0 } })
    t.strictSame(
      found.missing.find(({ key }) => key === alone!.key),
      {
        ...{ ...alone!, asset: usdc.address, amountAtomic: 10_000n },
        payTo: found.missing[0]!.payTo,
      },
    )
    t.equal(found.missing[0]!.payTo.toLowerCase(), seller)
    for (const { key } of together.slice(1)) known.add(key)
    t.strictSame(
      (await look()).keys,
      keysOf([alone!, together[0]!]),
      'of a transaction that is known in part the rest',
    )
    for (const { key } of all) known.add(key)
    const well = await look()
    t.match(well, { missing: { length: 0 }, seen: 7 })
    await chain.mine()
    t.match(await look({ sinceMs: Date.now() + hourMs }), { seen: 0 }, 'no further back than that')

    known.clear()
    const strange = await look({ senders: [newAccount().address] })
    t.match(strange, { missing: { length: 0 }, byOthers: 7 }, 'sent by others')
    known.add(alone!.key)
    const alike = await look({ senders: [], sentAlike: [alone!.transaction] })
    t.strictSame(alike.keys, keysOf(together), 'by whoever has sent what is known')
    t.match(await look({ senders: [], sentAlike: [] }), { seen: 0, missing: { length: 0 } })
    t.equal(sender, sender.toLowerCase())
  },
)

t.test('a node that limits what it answers is asked for less, and every block once', async (t) => {
  const { chain, sell, look } = await shop(t)
  const first = await sell(2)
  await chain.mine(1_100)
  const second = await sell(2)
  await chain.mine(700)
  const newest = Number(await chain.rpc('eth_blockNumber'))
  const expected = keysOf([...first, ...second])
  t.strictSame((await look()).keys, expected)
  const wider = (most: number) => (from: number, to: number) => to - from + 1 > most
  const refusals = {
    'by a code of its own': [wider(100), { status: 200, error: { code: -32602, message: 'max range 100' } }],
    'as if it were busy': [wider(300), { status: 200, error: { code: -32005, message: 'too many results' } }],
    'as a bad request': [wider(250), { status: 400, error: { code: -32000, message: 'block range' } }],
    'by HTTP alone': [wider(500), { status: 503 }],
    'where much has happened': [
      (from: number, to: number) => wider(40)(from, to) && from <= newest - 700 && to >= newest - 710,
      { status: 200, error: { code: -32000, message: 'query exceeds max results' } },
    ],
  } as const
  for (const [name, [isRefused, refusal]] of Object.entries(refusals)) {
    const node = await pickyNode(t, chain.rpcUrl, (from, to) => (isRefused(from, to) ? refusal : undefined))
    const found = await look({}, node.url)
    t.strictSame(found.keys, expected, name)
    t.notOk(found.fault)
    const answered = new Map(node.asked.flatMap((one) => (one.isRefused ? [] : [[one.to, one.from]])))
    let next = newest
    while (answered.has(next)) next = answered.get(next)! - 1
    t.equal(next, -1, 'the windows that were answered follow each other down to the first block')
    t.ok(
      node.asked.some((one) => one.isRefused),
      `${node.asked.length} windows`,
    )
    t.ok(node.asked.length < 150, `${node.asked.length} windows`)
  }
})

t.test(
  'a node that has forgotten what was before says how far it knows, and what it knows is found',
  async (t) => {
    const { chain, sell, look, sinceMs } = await shop(t)
    await sell(1)
    await chain.mine(900)
    const forgotten = Number(await chain.rpc('eth_blockNumber'))
    await chain.mine(600)
    const late = await sell(1)
    const node = await pickyNode(t, chain.rpcUrl, (from) =>
      from <= forgotten ? { status: 200, error: { code: -32000, message: 'history is pruned' } } : undefined,
    )
    const found = await look({}, node.url)
    t.strictSame(found.keys, keysOf(late))
    t.match(found.fault, /does not tell what came before: history is pruned/)
    t.ok(found.fromMs > sinceMs)
  },
)

t.test('numbers that no payment has tell of sales to wallets that the books do not know', async (t) => {
  const { chain, rpc, sell, look, numbers, known, sender, settler } = await shop(t)
  const other = newAccount().address.toLowerCase()
  for (const { key } of await sell(1)) known.add(key)
  numbers.add(0)
  t.match(await look(), { missing: { length: 0 }, numbers: { length: 0 } })
  const lost = await sell(1, other)
  const found = await look()
  t.strictSame(found.keys, keysOf(lost))
  t.equal(found.missing[0]?.payTo.toLowerCase(), other)
  t.match(found.numbers, { length: 0 })

  // A number that was used for nothing is ours; what else the key sends is somebody's who has it as well.
  await chain.send({ from: sender as Hex, to: sender as Hex })
  t.match((await look()).numbers, { length: 0 })
  await chain.send({ from: sender as Hex, to: newAccount().address })
  t.strictSame((await look()).numbers, [{ sender, lastBooked: 0, next: 4, foreign: 1, unread: 0 }])
  t.strictSame((await look({ numbersOf: async () => undefined })).numbers, [], 'the books can not say')

  // Sales go on, and what is missing lies between.
  await settler.start([])
  numbers.add(4)
  for (const { key } of await sell(1)) known.add(key)
  t.strictSame((await look()).keys, keysOf(lost))

  const lift = rpc.add('eth_getTransactionBySenderAndNonce', {
    ...{ kind: 'error', code: -32601, message: 'the method does not exist' },
  })
  numbers.delete(4)
  rpc.resetCounters()
  const blind = await look()
  t.match(blind, {
    missing: { length: 0 },
    numbers: [{ sender, lastBooked: 0, next: 5, foreign: 0, unread: 4 }],
  })
  t.equal(rpc.calls('eth_getTransactionBySenderAndNonce'), 1, 'asked once')
  const seen = await look({ payees: [seller, other] })
  t.strictSame(seen.keys, keysOf(lost))
  t.match(seen.numbers, [{ unread: 3 }], 'one of them is accounted for')
  lift()
})

t.test('a node that is away, or serves another chain, is no look', async (t) => {
  const { rpc, question } = await shop(t)
  const past = createEvmPastSettlements({ network, rpcUrls: [rpc.url], rpcTimeoutMs: 1_000 })
  rpc.add('*', { kind: 'refuse' })
  t.match(await past.look(network, question()), { status: 'unavailable', message: /No node answered/ })
  rpc.clear()
  rpc.add('eth_chainId', { kind: 'result', result: '0x1' })
  const fresh = createEvmPastSettlements({ network, rpcUrls: [rpc.url] })
  t.match(await fresh.look(network, question()), { status: 'unavailable', message: /chain 1/ })
  rpc.clear()
  const down = async () => Promise.reject(new Error('the store is away'))
  await t.rejects(past.look(network, question({ missingAmong: down })), /the store is away/)
})
