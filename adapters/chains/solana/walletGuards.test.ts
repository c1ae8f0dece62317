import { PublicKey, type TransactionInstruction } from '@solana/web3.js'
import t from 'tap'
import { LIGHTHOUSE_PROGRAM, SYSTEM_PROGRAM } from '../../../localnet/solana/addresses.ts'
import { addressOf, changed, edit, instruction } from '../../../test/helpers/chains/solana/payments.ts'
import {
  price,
  type Stage,
  sold,
  staged,
  startingLamports,
} from '../../../test/helpers/chains/solana/stage.ts'
import { reasons } from './reasons.ts'

/** An assertion as wallets add them, with a number of 2 or more, bytes that are no text, and accounts that it reads. */
const guard = (...accounts: string[]) =>
  instruction(
    LIGHTHOUSE_PROGRAM,
    Uint8Array.of(9, 4, 255, 128, 1),
    accounts.map((address) => ({ pubkey: new PublicKey(address), isSigner: false, isWritable: false })),
  )

/** What a wallet makes of a given limit, price, transfer and memo. */
type Shape = (...given: TransactionInstruction[]) => TransactionInstruction[]

async function payShaped(stage: Stage, shape: Shape) {
  const { payment, terms } = await stage.pay()
  const shaped = edit(payment, stage.cast.payer, (draft) => {
    draft.instructions = shape(...draft.instructions)
  })
  return { payment: shaped, terms, checked: await stage.settler.check(shaped, terms) }
}

t.test('a payment settles with the assertions that a wallet has put around its transfer', async (t) => {
  const stage = await staged(t)
  const [feePayer, payer] = [addressOf(stage.cast.feePayer), addressOf(stage.cast.payer)]
  const account = stage.chain.ataAddress(payer)
  const shapes: Record<string, Shape> = {
    'the public client': (...given) => given,
    'no memo': (limit, unitPrice, transfer) => [limit!, unitPrice!, transfer!],
    'two guards in the end': (...given) => [...given, guard(account), guard(payer)],
    'three guards before the memo': (limit, unitPrice, transfer, memo) => {
      return [limit!, unitPrice!, transfer!, guard(account), guard(payer), guard(account), memo!]
    },
    'Phantom: three guards before the transfer and one in the end, of the fee payer too': (
      limit,
      unitPrice,
      ...rest
    ) => [
      limit!,
      unitPrice!,
      guard(feePayer),
      guard(account),
      guard(payer, feePayer),
      ...rest,
      guard(feePayer),
    ],
    'a guard first, and the compute budget last': (limit, unitPrice, transfer, memo) => {
      return [guard(account), memo!, transfer!, unitPrice!, limit!]
    },
    'as many as there may be': (...given) => [...given, ...Array.from({ length: 12 }, () => guard(account))],
  }
  let count = 0n
  for (const [name, shape] of Object.entries(shapes)) {
    const { payment, terms, checked } = await payShaped(stage, shape)
    if (!checked.ok) return t.fail(`${name}: ${checked.message}`)
    const paid = await stage.verify({ payment, terms, identity: checked.identity })
    t.match((await stage.settle(paid)).outcome, { status: 'settled' }, name)
    count++
    t.equal(sold(stage), count * price, `${name}: exactly the price moved`)
  }
  const spent = startingLamports - stage.chain.balanceSol(feePayer)
  t.equal(spent, count * 10_001n, 'the fee payer has lost the fee and nothing else')
})

t.test('whatever a wallet adds, nothing but the fee can be taken from the fee payer', async (t) => {
  const stage = await staged(t)
  const { feePayer, payer, seller } = stage.cast
  const signer = { pubkey: feePayer.publicKey, isSigner: true, isWritable: true }
  const writing = (kind: number) => instruction(LIGHTHOUSE_PROGRAM, Uint8Array.of(kind, 1, 255, 0), [signer])
  const sendSol = instruction(SYSTEM_PROGRAM, Uint8Array.of(2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0), [
    { pubkey: payer.publicKey, isSigner: true, isWritable: true },
    { pubkey: seller.publicKey, isSigner: false, isWritable: true },
  ])
  const guards = (length: number) => Array.from({ length }, () => guard(addressOf(payer)))
  const unknown = /_unknown_\w+_instruction$/
  const refused: [what: string, reason: string | RegExp, shape: Shape][] = [
    ['Lighthouse makes an account', unknown, (...given) => [writing(0), ...given]],
    ['Lighthouse ends an account', unknown, (...given) => [...given, writing(1)]],
    [
      'the fee payer signs a memo',
      reasons.feePayerInAccounts,
      (limit, unitPrice, transfer, memo) => [
        changed(memo!, { keys: [signer] }),
        limit!,
        unitPrice!,
        transfer!,
      ],
    ],
    ['SOL is sent before the transfer', unknown, (...given) => [sendSol, ...given]],
    [
      'a transfer comes before the compute budget and another one after it',
      unknown,
      (limit, unitPrice, transfer) => [transfer!, limit!, unitPrice!, transfer!],
    ],
    ['a second limit in the end', reasons.computeLimit, (...given) => [...given, given[0]!]],
    ['a second price at first', reasons.computePrice, (...given) => [given[1]!, ...given]],
    [
      'guards, and a transfer that names no mint',
      reasons.noTransfer,
      (limit, unitPrice, transfer) => {
        const plain = Buffer.concat([Buffer.of(3), transfer!.data.subarray(1, 9)])
        return [limit!, unitPrice!, ...guards(2), changed(transfer!, { data: plain })]
      },
    ],
    ['17 instructions', reasons.instructionsLength, (...given) => [...given, ...guards(13)]],
  ]
  for (const [what, reason, shape] of refused) {
    t.match((await payShaped(stage, shape)).checked, { ok: false, reason }, what)
  }
})
