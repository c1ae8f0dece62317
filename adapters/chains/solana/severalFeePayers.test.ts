import { base58 } from '@scure/base'
import { Keypair } from '@solana/web3.js'
import t, { type Test } from 'tap'
import { type SettlementAttempt, solanaPaymentKey } from '../../../core/domain/payment.ts'
import { offersOf } from '../../../core/offers/offers.ts'
import { payableChallenges } from '../../../core/offers/payableChallenges.ts'
import type { Chains } from '../../../core/ports/chains/chains.ts'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import { addressOf, network, realPayment, usdc } from '../../../test/helpers/chains/solana/payments.ts'
import { price, sold, staged, startingLamports } from '../../../test/helpers/chains/solana/stage.ts'
import { reasons } from './reasons.ts'

/** A stage with a second fee payer, which has so much. */
async function withTwo(t: Test, lamports = startingLamports) {
  const stage = await staged(t)
  const second = Keypair.generate()
  if (lamports > 0n) stage.chain.airdrop(addressOf(second), lamports)
  const privateKeys = [stage.cast.feePayer, second].map(({ secretKey }) => base58.encode(secretKey))
  const settler = stage.another({ privateKeys })
  await settler.start([])
  const first = addressOf(stage.cast.feePayer)
  return { stage, settler, privateKeys, addresses: [first, addressOf(second)] as const }
}

const feePayerOf = (settler: Settler, payTo: string) =>
  settler.offerExtra(payTo, 'exact')['feePayer'] as string
const payees = Array.from({ length: 40 }, () => addressOf(Keypair.generate()))

t.test(
  'a payee is offered one fee payer, always the same, on every gateway; payees are spread',
  async (t) => {
    const { stage, settler, privateKeys, addresses } = await withTwo(t)
    const offered = payees.map((payTo) => feePayerOf(settler, payTo))
    t.same(new Set(offered), new Set(addresses))
    t.same(
      payees.map((payTo) => feePayerOf(stage.another({ privateKeys }), payTo)),
      offered,
    )
    t.equal(
      settler.offerExtra(payees[0]!, 'exact'),
      settler.offerExtra(payees[0]!, 'exact'),
      'nothing is made for each 402',
    )
  },
)

t.test('a payment is taken for whichever of the keys it was signed, and that one pays the fee', async (t) => {
  const { stage, settler, privateKeys, addresses } = await withTwo(t)
  // The list is turned round between the 402 and the payment.
  const turned = stage.another({ privateKeys: privateKeys.toReversed() })
  const before = addresses.map((address) => stage.chain.balanceSol(address))
  for (const [i, feePayer] of addresses.entries()) {
    const { terms } = await stage.pay()
    const own = { ...terms, extra: { ...terms.extra, feePayer } }
    const payment = await realPayment(stage.cast.payer, own, stage.chain.rpcUrl)
    const named = { ...terms, extra: { ...terms.extra, feePayer: addresses[1 - i]! } }
    const checked = await turned.check(payment, named)
    if (!checked.ok) throw new Error(checked.message)
    const { identity } = checked
    const verified = await turned.verify(payment, named, identity, { storeId: 'store' })
    if (!verified.ok) throw new Error(verified.message)
    const stored: SettlementAttempt[] = []
    const store = async (attempt: SettlementAttempt) => stored.push(attempt) > 0
    t.match(await turned.settle(payment, named, identity, store, verified.hold), { status: 'settled' })
    t.equal(stored[0]!.settler, `svm:${network}:${feePayer}`)
  }
  t.equal(sold(stage, usdc), 2n * price)
  t.same(
    addresses.map((address, i) => before[i]! - stage.chain.balanceSol(address)),
    [10_001n, 10_001n],
  )
  const polls = await Promise.all(settler.keys!.map((key) => key.readState()))
  t.same(
    polls.map(({ address }) => address),
    addresses,
  )
})

t.test('a fee payer of nobody here is refused as before', async (t) => {
  const { stage, settler } = await withTwo(t)
  const { terms } = await stage.pay()
  const own = { ...terms, extra: { ...terms.extra, feePayer: addressOf(Keypair.generate()) } }
  const payment = await realPayment(stage.cast.payer, own, stage.chain.rpcUrl)
  t.match(await settler.check(payment, terms), { ok: false, reason: reasons.feePayerMismatch })
})

t.test(
  'of a fee payer that was taken out of the list, a payment is still known: it may be charged',
  async (t) => {
    const { stage, settler } = await withTwo(t)
    const { terms } = await stage.pay()
    const former = { ...terms, extra: { ...terms.extra, feePayer: addressOf(Keypair.generate()) } }
    const payment = await realPayment(stage.cast.payer, former, stage.chain.rpcUrl)
    const { transaction } = payment.payload as { transaction: string }
    const bytes = Buffer.from(transaction, 'base64')
    // Two signatures come first, the payer's second.
    const key = solanaPaymentKey(network, bytes.subarray(1 + 2 * 64))
    const checked = await settler.check(payment, terms)
    t.match(checked, { ok: false, reason: reasons.feePayerMismatch, identity: { key, payTo: terms.payTo } })
    bytes[1 + 64]! ^= 1
    const forged = { ...payment, payload: { transaction: bytes.toString('base64') } }
    t.equal((await settler.check(forged, terms)).identity, undefined, 'only where the payer has signed it')
  },
)

t.test('one that runs low is offered to nobody, and the 402 names the other from then on', async (t) => {
  const { stage, settler, addresses } = await withTwo(t, 1_000_000n)
  const { payTo } = (await stage.pay()).terms
  const chains: Chains = { assets: [usdc], settlers: [settler], settler: () => settler }
  // A payee that is offered the second until it is known to be low.
  const payee = payees.find((one) => feePayerOf(settler, one) === addresses[1]) ?? payTo
  const offers = offersOf({ price: '0.01', payout: { base: null, solana: payee } }, chains, 60)
  const named: unknown[] = []
  const make = (open: typeof offers) => {
    named.push(open[0]!.terms.extra['feePayer'])
    return { v2: { status: 402, headers: [], body: '' } } as never
  }
  const payable = offers.map((offer) => ({ ...offer, payee: { ...offer.payee!, fault: undefined } }))
  const challenges = payableChallenges(payable as never, make, () => [])
  const read = () => challenges.v2
  read()
  read()
  t.same(named.length, 1, 'made once while nothing changes')
  t.match((await settler.diagnose()).join(), new RegExp(`${addresses[1]} has 1000000 lamports`))
  read()
  read()
  t.same(named.at(-1), addresses[0])
  t.ok(named.length <= 2)
  t.match((await settler.keys![1]!.readState()).trouble, { kind: 'low', words: /running low/ })
  stage.chain.airdrop(addresses[1], startingLamports)
  await settler.keys![1]!.readState()
  read()
  t.same(named.at(-1), addresses[1], 'with gas it is offered again')
})

t.test('the same key twice, in two spellings, is refused without naming it', async (t) => {
  const stage = await staged(t)
  const { secretKey } = stage.cast.feePayer
  const both = [base58.encode(secretKey), JSON.stringify([...secretKey])]
  t.throws(() => stage.another({ privateKeys: both }), { code: 'VALIDATION_ERROR', message: /given twice/ })
  t.throws(() => stage.another({ privateKeys: [] }), { code: 'VALIDATION_ERROR' })
})
