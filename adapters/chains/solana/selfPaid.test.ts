import { base58 } from '@scure/base'
import { Keypair, type TransactionInstruction } from '@solana/web3.js'
import t, { type Test } from 'tap'
import { memoProgram, tokenProgramAddress } from '../../../core/solana/addresses.ts'
import type { PaymentPayload } from '../../../core/x402/types.ts'
import { isOnChain, recoverOne } from '../../../test/helpers/chains/recoverOne.ts'
import {
  addressOf,
  instruction,
  network,
  newCast,
  rulesOf,
  termsOf,
  usdc,
} from '../../../test/helpers/chains/solana/payments.ts'
import { type Prepared, price, type Stage, setStage } from '../../../test/helpers/chains/solana/stage.ts'
import {
  type SignedSolana,
  signAgain,
  signSolana,
  submitSolana,
  transferInstruction,
} from '../../../test/helpers/localnet/sendToken.ts'
import { checkSolanaPayment } from './check/payment.ts'
import { reasons } from './reasons.ts'

const computeBudget = 'ComputeBudget111111111111111111111111111111'
const unitLimit = instruction(computeBudget, Buffer.from([2, 0x40, 0x42, 0x0f, 0]))
const unitPrice = instruction(computeBudget, Buffer.from([3, 0, 0xe1, 0xf5, 5, 0, 0, 0, 0]))

const payment = (transaction: string): PaymentPayload => ({
  x402Version: 1,
  scheme: 'exact',
  network,
  payload: { transaction },
})

async function staged(t: Test, options: Parameters<typeof setStage>[0] = {}) {
  const stage = await setStage(options)
  t.teardown(stage.close)
  const { chain, cast } = stage
  const transfer = (amountAtomic = price, to = cast.seller) =>
    transferInstruction(chain, tokenProgramAddress.token, {
      from: addressOf(cast.payer),
      to: addressOf(to),
      amountAtomic,
    })
  const terms = { ...termsOf(cast, usdc), extra: { feePayer: addressOf(cast.payer) } }
  const sign = (instructions: TransactionInstruction[], version?: 'legacy' | 0) =>
    signSolana(chain, [cast.payer], instructions, version)
  const prepare = async ({ base64 }: Pick<SignedSolana, 'base64'>): Promise<Prepared> => {
    const checked = await stage.settler.check(payment(base64), terms)
    if (!checked.ok) throw new Error(`${checked.reason}: ${checked.message}`)
    return { payment: payment(base64), terms, identity: checked.identity }
  }
  const verify = ({ payment, terms, identity }: Prepared) =>
    stage.settler.verify(payment, terms, identity, { storeId: 'store' })
  return { stage, terms, transfer, sign, prepare, verify }
}

const sold = ({ chain, cast }: Stage) => chain.balanceUsdc(addressOf(cast.seller))

t.test('a transfer whose fee the payer pays settles by the very bytes, whatever its fee', async (t) => {
  const { stage, transfer, sign, prepare, verify } = await staged(t)
  const memo = instruction(base58.encode(memoProgram), Buffer.from('hi'))
  const gateway = stage.chain.balanceSol(addressOf(stage.cast.feePayer))
  let count = 0n
  for (const version of ['legacy', 0] as const) {
    for (const shape of [
      [transfer()],
      [unitLimit, transfer()],
      [unitPrice, transfer()],
      [unitLimit, unitPrice, transfer(), memo, memo, memo],
    ]) {
      const signed = await sign(shape, version)
      const prepared = await prepare(signed)
      t.match(await verify(prepared), { ok: true })
      const { outcome, record } = await stage.settle(prepared)
      t.match(outcome, { status: 'settled', transaction: signed.signature })
      t.equal(record.attempt!.bytes, signed.base64)
      t.equal(await isOnChain(stage.settler, record), 'yes')
      t.match(await verify(prepared), { ok: false, reason: reasons.duplicate }, 'on chain already')
      t.equal(sold(stage), ++count * price)
      stage.chain.advanceSlots(1)
    }
  }
  t.equal(stage.chain.balanceSol(addressOf(stage.cast.feePayer)), gateway, 'it costs the gateway nothing')
})

t.test('one that has landed before is refused: it could be anybody’s', async (t) => {
  const { stage, transfer, sign, prepare, verify } = await staged(t)
  const signed = await sign([transfer()])
  await submitSolana(stage.chain, signed)
  t.match(await verify(await prepare(signed)), { ok: false, reason: reasons.duplicate })
  t.match(await verify(await prepare(signAgain(signed, stage.cast.payer))), { reason: reasons.duplicate })
  stage.chain.advanceSlots(200)
  t.match(await verify(await prepare(signed)), { ok: false, reason: reasons.blockhashExpired })
})

t.test('what was not on chain is not shown to a node in a form that could land', async (t) => {
  const { stage, transfer, sign, prepare, verify } = await staged(t)
  const simulated: (readonly unknown[])[] = []
  stage.rpc.onCall((method, params) => {
    if (method === 'simulateTransaction') simulated.push(params)
  })
  const prepared = await prepare(await sign([transfer()]))
  t.match(await verify(prepared), { ok: true })
  t.equal(simulated.length, 1)
  const [bytes, config] = simulated[0] as [string, { commitment: string }]
  t.same(Buffer.from(bytes, 'base64').subarray(1, 65), Buffer.alloc(64))
  t.equal(config.commitment, 'processed')
})

t.test('two signatures of one message are one payment, found by either', async (t) => {
  const { stage, transfer, sign, prepare, verify } = await staged(t, { confirmTimeoutMs: 50 })
  const signed = await sign([transfer()])
  const other = signAgain(signed, stage.cast.payer)
  const prepared = await prepare(signed)
  t.equal(prepared.identity.key, (await prepare(other)).identity.key)
  t.match(await verify(prepared), { ok: true })
  // The payer sends the other one between the check and the settlement.
  await submitSolana(stage.chain, other)
  const { outcome, record } = await stage.settle(prepared)
  t.match(outcome, { status: 'pending' })
  const heir = stage.another()
  t.match(await recoverOne(heir, record), { status: 'settled', transaction: other.signature })
  t.equal(await isOnChain(heir, { ...record, transaction: other.signature }), 'yes')
  stage.chain.advanceSlots(400)
  stage.ahead = 100_000
  t.match(await recoverOne(stage.another(), record), { status: 'settled', transaction: other.signature })
  t.equal(sold(stage), price)
})

t.test(
  'money moved away after verify: it never lands, fails for good, and counts against the payer',
  async (t) => {
    const { stage, transfer, sign, prepare } = await staged(t, {
      confirmTimeoutMs: 50,
      failureBudget: { failures: 1, windowMs: 600_000 },
    })
    const signed = await sign([transfer()])
    const prepared = await prepare(signed)
    stage.chain.dropNext(2)
    const { outcome, record } = await stage.settle(prepared)
    t.match(outcome, { status: 'pending', transaction: signed.signature })
    t.match(await recoverOne(stage.settler, record), { status: 'pending' }, 'sent again')
    stage.chain.advanceSlots(400)
    stage.ahead = 100_000
    t.match(await recoverOne(stage.settler, record), { status: 'failed_final' })
    t.equal(sold(stage), 0n)
    t.match(await stage.settler.check(prepared.payment, prepared.terms), {
      reason: 'payer_failure_budget_exhausted',
    })
  },
)

t.test('one that was lost on the way is sent again by whoever recovers it', async (t) => {
  const { stage, transfer, sign, prepare } = await staged(t, { confirmTimeoutMs: 50 })
  stage.chain.dropNext()
  const { record } = await stage.settle(await prepare(await sign([transfer()])))
  const heir = stage.another()
  t.match(await recoverOne(heir, record), { status: 'pending' })
  t.match(await recoverOne(heir, record), { status: 'settled' })
  t.equal(sold(stage), price)
})

t.test('a payer without SOL is told, and it is not our fault', async (t) => {
  const { stage, terms, verify } = await staged(t)
  const poor = Keypair.generate()
  stage.chain.mintUsdc(addressOf(poor), price)
  const cast = { ...stage.cast, payer: poor }
  const rich = await signSolana(
    { ...stage.chain, airdrop: () => '' },
    [poor],
    [
      transferInstruction(stage.chain, tokenProgramAddress.token, {
        from: addressOf(poor),
        to: addressOf(cast.seller),
        amountAtomic: price,
      }),
    ],
  )
  const own = { ...terms, extra: { feePayer: addressOf(poor) } }
  const checked = await stage.settler.check(payment(rich.base64), own)
  if (!checked.ok) return t.fail(checked.message)
  const refused = await verify({ payment: payment(rich.base64), terms: own, identity: checked.identity })
  t.match(refused, { ok: false, reason: reasons.insufficientFunds, message: /SOL/ })
  t.notOk('transient' in refused && refused.transient)
})

t.test('nothing but the transfer is taken, and only where the terms name its payer', async (t) => {
  const { stage, terms, transfer, sign } = await staged(t)
  const { cast, chain } = stage
  const refused = async (signed: Promise<SignedSolana>, reason: string, given: typeof terms = terms) =>
    t.match(await stage.settler.check(payment((await signed).base64), given), { ok: false, reason })
  const close = instruction(tokenProgramAddress.token, Buffer.from([9]), transfer().keys.slice(0, 3))
  const other = Keypair.generate()
  chain.createAta(addressOf(other))
  await refused(sign([]), reasons.noTransfer)
  await refused(sign([unitLimit, unitPrice]), reasons.noTransfer)
  await refused(sign([unitLimit, unitLimit, transfer()]), reasons.computeLimit)
  await refused(sign([transfer(), transfer()]), reasons.unknownOptional)
  await refused(sign([transfer(), close]), reasons.unknownOptional)
  await refused(sign([close, transfer()]), reasons.unknownOptional)
  await refused(sign([transfer(price - 1n)]), reasons.amountMismatch)
  await refused(sign([transfer(price, other)]), reasons.recipientMismatch)
  await refused(sign([transfer()]), reasons.feePayerMismatch, {
    ...terms,
    extra: { feePayer: addressOf(cast.feePayer) },
  })
  await refused(sign([transfer()]), reasons.feePayerNotManaged, {
    ...terms,
    extra: { feePayer: addressOf(other) },
  })
  // Another account pays the fee, so there are two signatures.
  await refused(signSolana(chain, [other, cast.payer], [transfer()]), reasons.feePayerNotManaged, {
    ...terms,
    extra: { feePayer: addressOf(other) },
  })
  const unsigned = Buffer.from((await sign([transfer()])).base64, 'base64').fill(0, 1, 65)
  await refused(
    Promise.resolve({ base64: unsigned.toString('base64'), signature: '' }),
    reasons.signatureInvalid,
  )
  // Rules that do not accept them, because a facilitator signs for the fee itself.
  const signed = await sign([transfer()])
  t.match(checkSolanaPayment(payment(signed.base64), terms, rulesOf(newCast())), {
    ok: false,
    reason: reasons.feePayerNotManaged,
  })
})

t.test('our own fee payer is never the payer of such a transfer', async (t) => {
  const { stage, terms } = await staged(t)
  const { cast, chain } = stage
  const ours = addressOf(cast.feePayer)
  chain.mintUsdc(ours, price)
  const stolen = await signSolana(
    chain,
    [cast.feePayer],
    [
      transferInstruction(chain, tokenProgramAddress.token, {
        from: ours,
        to: addressOf(cast.seller),
        amountAtomic: price,
      }),
    ],
  )
  const bytes = Buffer.from(stolen.base64, 'base64').fill(0, 1, 65).toString('base64')
  for (const transaction of [stolen.base64, bytes]) {
    t.match(await stage.settler.check(payment(transaction), { ...terms, extra: { feePayer: ours } }), {
      ok: false,
    })
  }
})
