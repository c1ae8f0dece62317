import { base58 } from '@scure/base'
import { Keypair } from '@solana/web3.js'
import type { Test } from 'tap'
import t from 'tap'
import { tokenProgramAddress } from '../../../core/solana/addresses.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import {
  addressOf,
  network,
  realPayment,
  termsOf,
  usdc,
} from '../../../test/helpers/chains/solana/payments.ts'
import { price, staged } from '../../../test/helpers/chains/solana/stage.ts'
import { signSolana, transferInstruction } from '../../../test/helpers/localnet/sendToken.ts'

/** A settler whose fee payer can pay for about ten fees in addition to the balance that it must keep. */
async function withLittle(t: Test, maxInFlight = 1_024) {
  const stage = await staged(t)
  const [feePayer, other] = [Keypair.generate(), Keypair.generate()]
  for (const one of [feePayer, other]) stage.chain.airdrop(addressOf(one), 1_890_880n)
  const settler = stage.another({
    privateKeys: [feePayer, other].map(({ secretKey }) => base58.encode(secretKey)),
    maxInFlight,
  })
  await settler.start([])
  const verify = async (payment: PaymentPayload, terms: PaymentRequirements, storeId: string) => {
    const checked = await settler.check(payment, terms)
    if (!checked.ok) throw new Error(checked.message)
    const { identity } = checked
    const verified = await settler.verify(payment, terms, identity, { storeId })
    const settle = () => {
      if (!verified.ok) throw new Error(verified.message)
      return settler.settle(payment, terms, identity, async () => true, verified.hold)
    }
    return { verified, settle }
  }
  const pay = async (storeId: string, by = feePayer, payer = stage.cast.payer) => {
    stage.chain.advanceSlots(1)
    const terms = termsOf({ ...stage.cast, feePayer: by }, usdc)
    return verify(await realPayment(payer, terms, stage.chain.rpcUrl), terms, storeId)
  }
  /** A transfer whose fee the buyer pays. */
  const paySelf = async (storeId: string) => {
    const { chain, cast } = stage
    chain.advanceSlots(1)
    const from = addressOf(cast.payer)
    const transfer = { from, to: addressOf(cast.seller), amountAtomic: price }
    const { base64 } = await signSolana(
      chain,
      [cast.payer],
      [transferInstruction(chain, tokenProgramAddress.token, transfer)],
    )
    const payment = { x402Version: 1, scheme: 'exact', network, payload: { transaction: base64 } } as const
    return verify(payment, { ...termsOf(cast, usdc), extra: { feePayer: from } }, storeId)
  }
  return { stage, other, pay, paySelf }
}

t.test(
  'a seller who never answers, paid by himself, does not take up all that a fee payer can pay for',
  async (t) => {
    const { stage, pay } = await withLittle(t)
    let held = 0
    while ((await pay('silent')).verified.ok) held++
    t.ok(held > 0 && held < 20, `${held} places of 1024`)
    // Before a payment can give way.
    stage.ahead += 2_100
    const { verified, settle } = await pay('neighbour')
    t.strictSame(verified.ok || verified.reason, true, 'a payment of the neighbour')
    if (verified.ok) t.match(await settle(), { status: 'settled' })
  },
)

t.test(
  'what others pay for takes up nothing of what a fee payer can pay for, and gives way to none',
  async (t) => {
    const { stage, other, pay, paySelf } = await withLittle(t)
    const byOthers = []
    for (let i = 0; i < 12; i++) byOthers.push(await paySelf('large'))
    for (let i = 0; i < 5; i++) byOthers.push(await pay('large', other))
    for (const { verified } of byOthers) t.ok(verified.ok)
    stage.ahead += 2_100
    let held = 0
    while ((await pay('small')).verified.ok) held++
    t.ok(held > 5 && held < 20, `${held} places`)
    for (const { settle } of byOthers) t.match(await settle(), { status: 'settled' })
  },
)

t.test(
  'nobody who waits for his seller gives way to a payer who has too little for all of his',
  async (t) => {
    const { stage, pay } = await withLittle(t)
    const poor = Keypair.generate()
    stage.chain.mintUsdc(addressOf(poor), price)
    const own = await pay('junk', undefined, poor)
    t.ok(own.verified.ok)
    const held = []
    for (;;) {
      const one = await pay('honest')
      if (!one.verified.ok) break
      held.push(one)
    }
    t.ok(held.length > 3, `${held.length} are held`)
    stage.ahead += 2_100
    for (let i = 0; i < 3; i++)
      t.match((await pay('junk', undefined, poor)).verified, { reason: 'payments_in_flight_exceed_balance' })
    for (const { settle } of held) t.match(await settle(), { status: 'settled' })
  },
)

t.test('nobody gives up his place to what a fee payer can not pay for even so', async (t) => {
  const { stage, pay, paySelf } = await withLittle(t, 24)
  let stores = 0
  while ((await pay(`one of ${stores}`)).verified.ok) stores++
  t.ok(stores > 0 && stores < 20, `a fee payer can pay for one of ${stores} stores`)
  const held = []
  for (;;) {
    const one = await paySelf('large')
    if (!one.verified.ok) break
    held.push(one)
  }
  t.equal(held.length, 24 - stores)
  stage.ahead += 2_100
  t.match((await pay('late')).verified, { reason: 'unexpected_settle_error' })
  for (const { settle } of held) t.match(await settle(), { status: 'settled' })
})
