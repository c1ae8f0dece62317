import { Keypair, SystemProgram } from '@solana/web3.js'
import t, { type Test } from 'tap'
import type { PaymentKey } from '../../../../core/domain/payment.ts'
import type { PastQuery } from '../../../../core/ports/chains/pastSettlements.ts'
import { tokenProgramAddress } from '../../../../core/solana/addresses.ts'
import { addressOf, dollar2022, network, usdc } from '../../../../test/helpers/chains/solana/payments.ts'
import { price, staged } from '../../../../test/helpers/chains/solana/stage.ts'
import { sendSolana, transferInstruction } from '../../../../test/helpers/localnet/sendToken.ts'
import { createSolanaPastSettlements } from './pastSettlements.ts'

const HOUR_MS = 3_600_000
/** With the gas that comes before each, more than one list of signatures has. */
const MANY = 520

/** A settler that sells, and the search for its past settlements. */
async function shop(t: Test) {
  const stage = await staged(t)
  const { chain, cast } = stage
  const [feePayer, payer, seller] = [cast.feePayer, cast.payer, cast.seller].map(addressOf) as [
    string,
    string,
    string,
  ]
  const sinceMs = Date.now() - HOUR_MS
  /** The payments in the ledger: by key, and by the transaction of a purchase. */
  const known = new Set<PaymentKey>()
  const sold = new Set<string>()
  await stage.settler.start([])

  async function sell(asset = usdc) {
    const prepared = await stage.verify(await stage.pay(asset))
    const { outcome } = await stage.settle(prepared)
    if (outcome.status !== 'settled') throw new Error(outcome.reason)
    chain.advanceSlots(1)
    return { key: prepared.identity.key, transaction: outcome.transaction! }
  }
  const past = createSolanaPastSettlements({ network, rpcUrls: [stage.rpc.url], rpcTimeoutMs: 5_000 })
  const question = (more: Partial<PastQuery> = {}): PastQuery => ({
    assets: [usdc.address, dollar2022.address],
    senders: [feePayer],
    sentAlike: [],
    payees: [],
    sinceMs,
    missingAmong: async (keys) => new Set(keys.filter((key) => !known.has(key))),
    unsoldAmong: async (transactions) => transactions.filter((one) => !sold.has(one)),
    noncesOf: async () => undefined,
    ...more,
  })
  async function search(more: Partial<PastQuery> = {}) {
    const verdict = await past.search(network, question(more))
    if (verdict.status !== 'looked') throw new Error(JSON.stringify(verdict))
    return { ...verdict, found: verdict.missing.map(({ key, transaction }) => ({ key, transaction })) }
  }
  return { ...stage, feePayer, payer, seller, sinceMs, known, sold, sell, search, past, question }
}

t.test('what the books lack is found by the fee payer, of each token, and nothing else is', async (t) => {
  const { chain, rpc, cast, payer, seller, feePayer, sinceMs, known, sold, sell, search } = await shop(t)
  const [first, other, last] = [await sell(), await sell(dollar2022), await sell()]
  // What is no sale: plain transfers, the fee payer's own affairs, and what it paid the fee of and failed.
  const moving = (from: string, amountAtomic: bigint) =>
    transferInstruction(chain, tokenProgramAddress.token, { from, to: seller, amountAtomic })
  await sendSolana(chain, [cast.payer], [moving(payer, price)])
  chain.mintToken(usdc.address, feePayer, price)
  await sendSolana(chain, [cast.feePayer], [moving(feePayer, price)])
  await sendSolana(chain, [cast.feePayer, cast.payer], [moving(payer, price), moving(payer, price)])
  await sendSolana(chain, [cast.feePayer, cast.payer], [moving(payer, 10n ** 12n)])
  const toElsewhere = { fromPubkey: cast.feePayer.publicKey, toPubkey: Keypair.generate().publicKey }
  await sendSolana(chain, [cast.feePayer], [SystemProgram.transfer({ ...toElsewhere, lamports: 10_000_000 })])

  const all = await search()
  t.strictSame(all.found, [last, other, first], 'the newest first')
  t.match(all, { fromMs: sinceMs, nonces: { length: 0 }, fault: undefined, seen: 3 })
  t.strictSame(all.missing[1], {
    ...other,
    asset: dollar2022.address,
    payer,
    payTo: seller,
    amountAtomic: price,
  })
  known.add(first.key)
  t.strictSame((await search()).found, [last, other], 'one that is on its way has no purchase yet')
  sold.add(other.transaction)
  rpc.resetCounters()
  t.strictSame((await search()).found, [last])
  const reads = rpc.calls('getTransaction')
  known.add(other.key)
  sold.add(first.transaction).add(last.transaction)
  rpc.resetCounters()
  t.match(await search(), { found: { length: 0 }, seen: 3 })
  t.equal(rpc.calls('getTransaction'), reads - 2, 'what has been sold is not read')
  t.match(await search({ sinceMs: Date.now() + HOUR_MS }), { found: { length: 0 }, seen: 0 })
})

t.test(
  'a facilitator’s fee payer is known by what is booked, and its payments by the sellers’ accounts',
  async (t) => {
    const { cast, chain, payer, seller, sold, known, sell, search } = await shop(t)
    const [booked, lost] = [await sell(), await sell(dollar2022)]
    sold.add(booked.transaction)
    await sendSolana(
      chain,
      [cast.payer],
      [
        transferInstruction(chain, tokenProgramAddress.token, {
          from: payer,
          to: seller,
          amountAtomic: price,
        }),
      ],
    )
    const asked = { senders: [], sentAlike: [booked.transaction], payees: [seller] }
    t.strictSame((await search(asked)).found, [lost])
    t.match(await search({ ...asked, payees: [addressOf(Keypair.generate())] }), { found: { length: 0 } })
    t.match(await search({ ...asked, sentAlike: [] }), { found: { length: 0 }, seen: 0 })
    known.add(lost.key)
    t.match(await search(asked), { found: { length: 0 }, seen: 2 })
  },
)

t.test('a long list is read page by page; how far a node knows is said', async (t) => {
  const { rpc, chain, cast, sell, search, past, question, sinceMs } = await shop(t)
  const old = await sell()
  const self = { fromPubkey: cast.feePayer.publicKey, toPubkey: cast.feePayer.publicKey }
  for (let i = 0; i < MANY; i++)
    await sendSolana(chain, [cast.feePayer], [SystemProgram.transfer({ ...self, lamports: i })])
  const late = await sell()
  rpc.resetCounters()
  const downTo: number[] = []
  const all = await search({ onProgress: (downToMs) => void downTo.push(downToMs) })
  t.strictSame(all.found, [late, old])
  t.equal(rpc.calls('getSignaturesForAddress'), 2)
  t.ok(downTo.length === 2 && downTo[1]! <= downTo[0]!)

  rpc.add('getFirstAvailableBlock', { kind: 'result', result: chain.slot() })
  rpc.add('getBlockTime', { kind: 'result', result: Math.floor(Date.now() / 1_000) })
  const partly = await search()
  t.ok(partly.fromMs > sinceMs)
  t.match(partly, { found: [late, old], fault: 'the node has no older history' })
  rpc.clear()

  rpc.add('getTransaction', { kind: 'result', result: null }, 1)
  t.match(await search(), { fault: '1 transactions could not be read' })
  rpc.add('getSignaturesForAddress', { kind: 'error', code: -32000, message: 'not now' })
  t.match(await past.search(network, question()), { status: 'unavailable', message: 'not now' })
  rpc.clear()
  const down = async () => Promise.reject(new Error('the store is away'))
  await t.rejects(past.search(network, question({ missingAmong: down })), /the store is away/)
})
