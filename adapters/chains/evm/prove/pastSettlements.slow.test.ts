import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import t from 'tap'
import type { PaymentKey } from '../../../../core/domain/payment.ts'
import type { PastQuery } from '../../../../core/ports/chains/pastSettlements.ts'
import type { PaymentRequirements } from '../../../../core/x402/types.ts'
import {
  exactTerms,
  proxies,
  signAllowance,
  signPermit,
  uptoTerms,
} from '../../../../test/helpers/chains/evm/permit2.ts'
import {
  newAccount,
  remember,
  seller,
  signPayment,
  startSettler,
  usdc,
} from '../../../../test/helpers/chains/evm/settler.ts'
import { sendUsdc } from '../../../../test/helpers/localnet/sendToken.ts'
import { type Hex, openNodes } from '../rpc/nodes.ts'
import { addressOfKey } from '../settle/transaction.ts'
import { createEvmPastSettlements } from './pastSettlements.ts'

const network = 'eip155:84532'
const HOUR_MS = 3_600_000

/** A chain on which a settler has sold, and the search for its past settlements. */
async function shop(t: Test) {
  const fixture = await startSettler(t, { sharedKeyMs: 0 })
  const { chain, settler, terms, settlingKey } = fixture
  const sender = addressOfKey(Buffer.from(settlingKey.slice(2), 'hex'))
  const sinceMs = Date.now() - HOUR_MS
  /** The payments in the ledger. */
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

  const question = (more: Partial<PastQuery> = {}): PastQuery => ({
    assets: [usdc.address],
    senders: [sender],
    sentAlike: [],
    payees: [seller],
    sinceMs,
    missingAmong: async (keys) => new Set(keys.filter((key) => !known.has(key))),
    unsoldAmong: async (transactions) => transactions,
    noncesOf: async () => (numbers.size === 0 ? undefined : numbers),
    ...more,
  })
  async function search(more: Partial<PastQuery> = {}, rpcUrl = fixture.rpc.url) {
    const past = createEvmPastSettlements(openNodes({ network, rpcUrls: [rpcUrl], rpcTimeoutMs: 5_000 }))
    const verdict = await past.search(network, question(more))
    if (verdict.status !== 'looked') throw new Error(JSON.stringify(verdict))
    return { ...verdict, keys: verdict.missing.map(({ key }) => key).sort() }
  }
  return { ...fixture, sender, known, numbers, sinceMs, sell, search, question }
}

const keysOf = (sales: readonly { readonly key: PaymentKey }[]) => sales.map(({ key }) => key).sort()

/** Blocks that a node was queried for, and whether it responded. */
interface Asked {
  readonly from: number
  readonly to: number
  readonly isRefused: boolean
}

/** A node that responds to some windows of events as providers that refuse them. */
async function pickyNode(
  t: Test,
  upstream: string,
  refusal: (from: number, to: number) => { readonly status: number; readonly error?: object } | undefined,
) {
  const requests: Asked[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const body = JSON.parse(text)
    for (const { id, method, params } of [body].flat()) {
      if (method !== 'eth_getLogs') continue
      const [from, to] = [Number(params[0].fromBlock), Number(params[0].toBlock)]
      const refused = refusal(from, to)
      requests.push({ from, to, isRefused: refused !== undefined })
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
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}

t.test(
  'what the books lack is found, alone and among others of its transaction, and nothing else',
  async (t) => {
    const { chain, settler, terms, pay, sell, search, known, sender, sinceMs } = await shop(t)
    const [alone] = await sell(1)
    const together = await sell(6)
    t.ok(new Set(together.map(({ transaction }) => transaction)).size < 6, 'in transactions of several')
    // These are no sales: a plain transfer, an empty transfer, another payee's authorization, and a transaction of this key that
    // moved nothing.
    const friend = newAccount()
    await chain.mintUsdc(friend.address, 10_000n)
    await sendUsdc(chain, friend.address, seller as Hex, 10_000n)
    await sendUsdc(chain, friend.address, seller as Hex, 0n)
    const { payment, identity } = await pay()
    await chain.setBlacklisted(identity.payer as Hex, true)
    t.match(await settler.settle(payment, terms, identity, remember([])), { status: 'pending' })

    const all = [alone!, ...together]
    const found = await search()
    t.strictSame(found.keys, keysOf(all))
    t.match(found, { seen: 7, byOthers: 0, fromMs: sinceMs, nonces: { length: 0 } })
    t.strictSame(
      found.missing.find(({ key }) => key === alone!.key),
      {
        ...alone!,
        asset: usdc.address,
        amountAtomic: 10_000n,
        payTo: found.missing[0]!.payTo,
      },
    )
    t.equal(found.missing[0]!.payTo.toLowerCase(), seller)
    for (const { key } of together.slice(1)) known.add(key)
    t.strictSame(
      (await search()).keys,
      keysOf([alone!, together[0]!]),
      'of a transaction that is known in part the rest',
    )
    for (const { key } of all) known.add(key)
    const well = await search()
    t.match(well, { missing: { length: 0 }, seen: 7 })
    await chain.mine()
    t.match(await search({ sinceMs: Date.now() + HOUR_MS }), { seen: 0 }, 'no further back than that')

    known.clear()
    const strange = await search({ senders: [newAccount().address] })
    t.match(strange, { missing: { length: 0 }, byOthers: 7 }, 'sent by others')
    known.add(alone!.key)
    const alike = await search({ senders: [], sentAlike: [alone!.transaction] })
    t.strictSame(alike.keys, keysOf(together), 'by whoever has sent what is known')
    t.match(await search({ senders: [], sentAlike: [] }), { seen: 0, missing: { length: 0 } })
    t.equal(sender, sender.toLowerCase())
  },
)

t.test('payments by Permit2 are found by their calls, with and without a permit of the token', async (t) => {
  const f = await shop(t)
  const { chain, settler, buyer, search, known, numbers, sender } = f
  const own = newAccount().address.toLowerCase()
  const buy = async (terms: PaymentRequirements, amount: string, isSponsored = false) => {
    const payment = {
      ...(await signPermit(buyer, terms)),
      ...(isSponsored && { allowancePermit: await signAllowance(buyer, terms) }),
    }
    const checked = await settler.check(payment, terms)
    if (!checked.ok) throw new Error(checked.message)
    const { identity } = checked
    const outcome = await settler.settle(payment, { ...terms, amount }, identity, remember([]))
    if (outcome.status !== 'settled') throw new Error(outcome.reason)
    return { key: identity.key, payer: identity.payer, transaction: outcome.transaction! }
  }
  const sponsored = await buy(uptoTerms(f), '4000', true)
  await chain.allowPermit2(buyer.address)
  const used = await buy(uptoTerms(f), '7')
  const whole = await buy(exactTerms(), '10000')
  const all = [sponsored, used, whole]
  await sendUsdc(chain, buyer.address, seller as Hex, 7n)

  const found = await search()
  t.strictSame(found.keys, keysOf(all))
  t.match(found, { seen: 3, byOthers: 0, nonces: { length: 0 } })
  t.match(
    found.missing.find(({ key }) => key === used.key),
    { ...used, asset: usdc.address, amountAtomic: 7n },
  )
  known.add(used.key)
  t.strictSame((await search()).keys, keysOf([sponsored, whole]))
  for (const { key } of all) known.add(key)
  t.match(await search(), { missing: { length: 0 }, seen: 3 })
  known.clear()
  t.match(await search({ senders: [newAccount().address] }), { missing: { length: 0 }, byOthers: 3 })

  // A sale to a wallet that is not in the ledger is found by its nonce, and one that reverted is the settler's own.
  for (const { key } of all) known.add(key)
  numbers.add(0).add(1).add(2)
  const lost = await buy({ ...exactTerms(), payTo: own }, '10000')
  t.match(await search(), { keys: [lost.key], nonces: { length: 0 } })
  await chain.send({ from: sender as Hex, to: proxies.exact, data: '0x', gas: '0x186a0' }).catch(() => {})
  t.match((await search()).nonces, { length: 0 })

  const away = f.rpc.add('eth_getTransactionByHash', { kind: 'error', code: -32_000, message: 'away' })
  t.match((await search()).fault, /expected the transactions of all transfers/)
  away()
})

t.test('a node that limits what it answers is asked for less, and every block once', async (t) => {
  const { chain, sell, search } = await shop(t)
  const first = await sell(2)
  await chain.mine(1_100)
  const second = await sell(2)
  await chain.mine(700)
  const newest = Number(await chain.rpc('eth_blockNumber'))
  const expected = keysOf([...first, ...second])
  t.strictSame((await search()).keys, expected)
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
    const found = await search({}, node.url)
    t.strictSame(found.keys, expected, name)
    t.notOk(found.fault)
    const answered = new Map(node.requests.flatMap((one) => (one.isRefused ? [] : [[one.to, one.from]])))
    let next = newest
    while (answered.has(next)) next = answered.get(next)! - 1
    t.equal(next, -1, 'the windows that were answered follow each other down to the first block')
    t.ok(
      node.requests.some((one) => one.isRefused),
      `${node.requests.length} windows`,
    )
    t.ok(node.requests.length < 150, `${node.requests.length} windows`)
  }
})

t.test(
  'a node that has forgotten what was before says how far it knows, and what it knows is found',
  async (t) => {
    const { chain, sell, search, sinceMs } = await shop(t)
    await sell(1)
    await chain.mine(900)
    const forgotten = Number(await chain.rpc('eth_blockNumber'))
    await chain.mine(600)
    const late = await sell(1)
    const node = await pickyNode(t, chain.rpcUrl, (from) =>
      from <= forgotten ? { status: 200, error: { code: -32000, message: 'history is pruned' } } : undefined,
    )
    const found = await search({}, node.url)
    t.strictSame(found.keys, keysOf(late))
    t.match(found.fault, /does not return older blocks: history is pruned/)
    t.ok(found.fromMs > sinceMs)
  },
)

t.test('numbers that no payment has tell of sales to wallets that the books do not know', async (t) => {
  const { chain, rpc, sell, search, numbers, known, sender, settler } = await shop(t)
  const other = newAccount().address.toLowerCase()
  for (const { key } of await sell(1)) known.add(key)
  numbers.add(0)
  t.match(await search(), { missing: { length: 0 }, nonces: { length: 0 } })
  const lost = await sell(1, other)
  const found = await search()
  t.strictSame(found.keys, keysOf(lost))
  t.equal(found.missing[0]?.payTo.toLowerCase(), other)
  t.match(found.nonces, { length: 0 })

  // A nonce that was used for nothing is ours; other transactions of the key come from another holder of it.
  await chain.send({ from: sender as Hex, to: sender as Hex })
  t.match((await search()).nonces, { length: 0 })
  await chain.send({ from: sender as Hex, to: newAccount().address })
  t.strictSame((await search()).nonces, [{ sender, lastInLedger: 0, next: 4, foreign: 1, unread: 0 }])
  t.strictSame((await search({ noncesOf: async () => undefined })).nonces, [], 'the books can not say')

  // Sales go on, and what is missing lies between.
  await settler.start([])
  numbers.add(4)
  for (const { key } of await sell(1)) known.add(key)
  t.strictSame((await search()).keys, keysOf(lost))

  const lift = rpc.add('eth_getTransactionBySenderAndNonce', {
    kind: 'error',
    code: -32601,
    message: 'the method does not exist',
  })
  numbers.delete(4)
  rpc.resetCounters()
  const blind = await search()
  t.match(blind, {
    missing: { length: 0 },
    nonces: [{ sender, lastInLedger: 0, next: 5, foreign: 0, unread: 4 }],
  })
  t.equal(rpc.calls('eth_getTransactionBySenderAndNonce'), 1, 'asked once')
  const seen = await search({ payees: [seller, other] })
  t.strictSame(seen.keys, keysOf(lost))
  t.match(seen.nonces, [{ unread: 3 }], 'one of them is accounted for')
  lift()
})

t.test('a node that is away, or serves another chain, is no look', async (t) => {
  const { rpc, question } = await shop(t)
  const past = createEvmPastSettlements(openNodes({ network, rpcUrls: [rpc.url], rpcTimeoutMs: 1_000 }))
  rpc.add('*', { kind: 'refuse' })
  t.match(await past.search(network, question()), { status: 'unavailable', message: /No node responded to/ })
  rpc.clear()
  rpc.add('eth_chainId', { kind: 'result', result: '0x1' })
  const fresh = createEvmPastSettlements(openNodes({ network, rpcUrls: [rpc.url] }))
  t.match(await fresh.search(network, question()), { status: 'unavailable', message: /chain 1/ })
  rpc.clear()
  const down = async () => Promise.reject(new Error('the store is away'))
  await t.rejects(past.search(network, question({ missingAmong: down })), /the store is away/)
})
