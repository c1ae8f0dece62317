import {
  AddressLookupTableAccount,
  Keypair,
  MessageV0,
  PublicKey,
  SystemProgram,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js'
import t from 'tap'
import { tokenProgramAddress, tokenProgramBytes } from '../../../../core/solana/addresses.ts'
import { associatedTokenAddress } from '../../../../core/solana/tokenAccount.ts'
import {
  addressOf,
  bytesOf,
  changed,
  type Draft,
  dollar2022,
  edit,
  editMessage,
  instruction,
  newCast,
  paymentOf,
  realPayment,
  rulesOf,
  startMintServer,
  termsOf,
  transactionOf,
  usdc,
} from '../../../../test/helpers/chains/solana/payments.ts'
import { reasons } from '../reasons.ts'
import { checkSolanaPayment } from './payment.ts'

const lighthouse = 'L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95'
const memo = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr'
const { rpcUrl, close } = await startMintServer()
t.teardown(close)
const cast = newCast()
const { payer, feePayer, seller } = cast
const rules = rulesOf(cast)
const terms = termsOf(cast, usdc)
const real = await realPayment(payer, terms, rpcUrl)
const check = (payment: typeof real, theTerms = terms) => checkSolanaPayment(payment, theTerms, rules)
const edited = (change: (draft: Draft) => void) => edit(real, payer, change)
const ata = (owner: Keypair, asset = usdc) =>
  new PublicKey(
    associatedTokenAddress(
      owner.publicKey.toBytes(),
      tokenProgramBytes[asset.program ?? 'token'],
      new PublicKey(asset.address).toBytes(),
    ),
  )

t.test(
  'what the public clients sign passes, with Token, Token-2022, version 1 and a memo of the seller',
  async (t) => {
    for (const asset of [usdc, dollar2022]) {
      for (const version of [1, 2] as const) {
        for (const extra of [{}, { memo: 'order 7 — été' }]) {
          const itsTerms = termsOf(cast, asset, extra)
          const checked = check(await realPayment(payer, itsTerms, rpcUrl, version), itsTerms)
          if (!checked.ok) return t.fail(checked.message)
          t.match(checked.identity, {
            network: terms.network,
            asset: asset.address,
            payer: addressOf(payer),
            payTo: addressOf(seller),
            amountAtomic: 10_000n,
            key: /^[0-9a-f]{64}$/,
            nonce: /^[0-9a-f]{64}$/,
          })
        }
      }
    }
  },
)

t.test('three instructions without a memo pass, and so does a legacy message', async (t) => {
  t.ok(check(edited((draft) => draft.instructions.splice(3))).ok)
  const legacy = edited((draft) => {
    draft.version = 'legacy'
  })
  t.ok(check(legacy).ok)
})

t.test('one or two instructions are no payment', async (t) => {
  const two = edited((draft) => {
    draft.instructions.splice(2)
    draft.signers = []
  })
  t.match(check(two), { ok: false, reason: reasons.noTransfer })
  const alone = edited((draft) => draft.instructions.splice(0, 2))
  t.match(check(alone), { ok: false, reason: reasons.computeLimit })
})

t.test('the same message is the same payment, and another message is another', async (t) => {
  const again = check(editMessage(real, payer, (message) => message))
  const first = check(real)
  if (!first.ok || !again.ok) return t.fail('both should pass')
  t.equal(again.identity.key, first.identity.key)
  const next = check(await realPayment(payer, terms, rpcUrl))
  if (!next.ok) return t.fail(next.message)
  t.not(next.identity.key, first.identity.key)
})

const budget = (draft: Draft, index: number, data: Uint8Array) => {
  draft.instructions[index] = changed(draft.instructions[index]!, { data: Buffer.from(data) })
}
const limitOf = (units: number) => {
  const data = Buffer.alloc(5)
  data[0] = 2
  data.writeUInt32LE(units, 1)
  return data
}
const priceOf = (microLamports: bigint) => {
  const data = Buffer.alloc(9)
  data[0] = 3
  data.writeBigUInt64LE(microLamports, 1)
  return data
}
const transferAccounts = (draft: Draft, index: number, pubkey: PublicKey, isSigner?: boolean) => {
  const keys = draft.instructions[2]!.keys.map((key, i) =>
    i === index ? { ...key, pubkey, isSigner: isSigner ?? key.isSigner } : key,
  )
  draft.instructions[2] = changed(draft.instructions[2]!, { keys })
}
const transferData = (draft: Draft, change: (data: Buffer) => Buffer) => {
  draft.instructions[2] = changed(draft.instructions[2]!, {
    data: change(Buffer.from(draft.instructions[2]!.data)),
  })
}
const transferAmount = (draft: Draft, amount: bigint) =>
  transferData(draft, (data) => {
    data.writeBigUInt64LE(amount, 1)
    return data
  })
const stranger = Keypair.generate()

/** One fault each, and the reason of its refusal. */
const refusals: [string, string, (draft: Draft) => void][] = [
  ['a fee payer that is not ours', reasons.feePayerMismatch, (d) => (d.feePayer = stranger.publicKey)],
  ['a compute limit above the cap', reasons.computeLimitTooHigh, (d) => budget(d, 0, limitOf(400_001))],
  ['the largest compute limit', reasons.computeLimitTooHigh, (d) => budget(d, 0, limitOf(2 ** 32 - 1))],
  ['a compute price above the cap', reasons.computePriceTooHigh, (d) => budget(d, 1, priceOf(200_001n))],
  ['the largest compute price', reasons.computePriceTooHigh, (d) => budget(d, 1, priceOf(2n ** 64n - 1n))],
  [
    'a limit with a byte too many',
    reasons.computeLimit,
    (d) => budget(d, 0, Buffer.concat([limitOf(1), Buffer.of(0)])),
  ],
  ['a price with a byte too few', reasons.computePrice, (d) => budget(d, 1, priceOf(1n).subarray(0, 8))],
  ['two limits', reasons.computeLimit, (d) => (d.instructions[1] = d.instructions[0]!)],
  [
    'a heap frame instead of a limit',
    reasons.computeLimit,
    (d) => budget(d, 0, Uint8Array.of(1, 0, 0, 1, 0)),
  ],
  ['no limit', reasons.computeLimit, (d) => d.instructions.shift()],
  ['no price', reasons.computePrice, (d) => d.instructions.splice(1, 1)],
  ['a price repeated later', reasons.computePrice, (d) => d.instructions.push(d.instructions[1]!)],
  ['a second transfer', reasons.unknownInstruction[1], (d) => d.instructions.push(d.instructions[2]!)],
  [
    'a System transfer in the end',
    reasons.unknownInstruction[1],
    (d) =>
      d.instructions.push(
        SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: stranger.publicKey, lamports: 1 }),
      ),
  ],
  [
    'a fourth instruction that makes an account',
    reasons.unknownInstruction[0],
    (d) => {
      d.instructions[3] = instruction('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL', Uint8Array.of(1), [
        { pubkey: payer.publicKey, isSigner: true, isWritable: true },
        { pubkey: ata(stranger), isSigner: false, isWritable: true },
      ])
    },
  ],
  [
    'Lighthouse writing memory, which makes an account',
    reasons.unknownInstruction[1],
    (d) => d.instructions.push(instruction(lighthouse, Uint8Array.of(0, 1, 255, 0))),
  ],
  [
    'Lighthouse closing memory',
    reasons.unknownInstruction[1],
    (d) => d.instructions.push(instruction(lighthouse, Uint8Array.of(1, 1, 255))),
  ],
  [
    'Lighthouse without data',
    reasons.unknownInstruction[1],
    (d) => d.instructions.push(instruction(lighthouse, Uint8Array.of())),
  ],
  [
    'a memo where the transfer belongs',
    reasons.noTransfer,
    (d) => {
      d.instructions[2] = d.instructions[3]!
      d.signers = []
    },
  ],
  [
    'a plain Transfer',
    reasons.noTransfer,
    (d) => transferData(d, (data) => Buffer.concat([Buffer.of(3), data.subarray(1, 9)])),
  ],
  [
    'an Approve',
    reasons.noTransfer,
    (d) => transferData(d, (data) => Buffer.concat([Buffer.of(13), data.subarray(1)])),
  ],
  [
    'a transfer with a byte too many',
    reasons.noTransfer,
    (d) => transferData(d, (data) => Buffer.concat([data, Buffer.of(0)])),
  ],
  [
    'a transfer with a fifth account',
    reasons.noTransfer,
    (d) => {
      const keys = [
        ...d.instructions[2]!.keys,
        { pubkey: stranger.publicKey, isSigner: false, isWritable: false },
      ]
      d.instructions[2] = changed(d.instructions[2]!, { keys })
    },
  ],
  [
    'the other token program',
    reasons.noTransfer,
    (d) =>
      (d.instructions[2] = changed(d.instructions[2]!, {
        programId: new PublicKey(tokenProgramAddress['token-2022']),
      })),
  ],
  ['another mint', reasons.mintMismatch, (d) => transferAccounts(d, 1, new PublicKey(dollar2022.address))],
  ['other decimals', reasons.mintMismatch, (d) => transferData(d, (data) => data.fill(9, 9))],
  ['another destination', reasons.recipientMismatch, (d) => transferAccounts(d, 2, ata(stranger))],
  [
    'the payee itself as destination',
    reasons.recipientMismatch,
    (d) => transferAccounts(d, 2, seller.publicKey),
  ],
  [
    "the payee's account for the other program",
    reasons.recipientMismatch,
    (d) => transferAccounts(d, 2, ata(seller, dollar2022)),
  ],
  [
    'the destination as its own source',
    reasons.recipientMismatch,
    (d) => transferAccounts(d, 0, ata(seller)),
  ],
  ['one unit less', reasons.amountMismatch, (d) => transferAmount(d, 9_999n)],
  ['one unit more', reasons.amountMismatch, (d) => transferAmount(d, 10_001n)],
  [
    'the fee payer as authority',
    reasons.feePayerTransferring,
    (d) => {
      transferAccounts(d, 3, feePayer.publicKey)
      d.signers = []
    },
  ],
  [
    'the fee payer as source',
    reasons.feePayerTransferring,
    (d) => transferAccounts(d, 0, feePayer.publicKey),
  ],
  [
    'the fee payer among the accounts of a memo',
    reasons.feePayerInAccounts,
    (d) => {
      const keys = [{ pubkey: feePayer.publicKey, isSigner: true, isWritable: false }]
      d.instructions[3] = changed(d.instructions[3]!, { keys })
    },
  ],
  [
    'a third signer, even where a memo names it',
    reasons.excessiveSigners,
    (d) => {
      const keys = [{ pubkey: stranger.publicKey, isSigner: true, isWritable: false }]
      d.instructions[3] = changed(d.instructions[3]!, { keys })
      d.signers = [payer, stranger]
    },
  ],
  [
    'an authority that does not sign',
    reasons.signatureInvalid,
    (d) => {
      transferAccounts(d, 3, payer.publicKey, false)
      d.signers = []
    },
  ],
  [
    'a payer that has not signed yet',
    reasons.signatureInvalid,
    (d) => {
      d.signers = []
    },
  ],
  [
    'a fee payer slot that is filled',
    reasons.signatureInvalid,
    (d) => {
      d.signers = [payer, feePayer]
    },
  ],
]

for (const [what, reason, change] of refusals) {
  t.test(`refused: ${what}`, async (t) => {
    t.ok(check(real).ok, 'the payment passes before it is changed')
    t.match(check(edited(change)), { ok: false, reason })
  })
}

t.test('refused: a signature of somebody else, and one with a flipped bit', async (t) => {
  const bytes = bytesOf(real)
  bytes[1 + 64 + 3]! ^= 1
  t.match(check(paymentOf(bytes.toString('base64'))), { reason: reasons.signatureInvalid })
  const other = VersionedTransaction.deserialize(bytesOf(edit(real, payer, (d) => d.instructions.splice(3))))
  const swapped = bytesOf(real)
  swapped.set(other.signatures[1]!, 1 + 64)
  t.match(check(paymentOf(swapped.toString('base64'))), { reason: reasons.signatureInvalid })
})

t.test('refused: lookup tables, resolved or empty', async (t) => {
  const table = new AddressLookupTableAccount({
    key: stranger.publicKey,
    state: {
      deactivationSlot: 2n ** 64n - 1n,
      lastExtendedSlot: 0,
      lastExtendedSlotStartIndex: 0,
      addresses: [ata(seller), ata(payer)],
    },
  })
  const read = TransactionMessage.decompile(VersionedTransaction.deserialize(bytesOf(real)).message)
  const transaction = new VersionedTransaction(read.compileToV0Message([table]))
  transaction.sign([payer])
  t.ok(transaction.message.addressTableLookups.length > 0, 'the table is used')
  const payment = paymentOf(Buffer.from(transaction.serialize()).toString('base64'))
  t.match(check(payment), { reason: reasons.lookupTables })
  const unused = editMessage(
    real,
    payer,
    (message) =>
      new MessageV0({
        ...message,
        addressTableLookups: [{ accountKey: stranger.publicKey, writableIndexes: [], readonlyIndexes: [] }],
      }),
  )
  t.match(check(unused), { reason: reasons.lookupTables })
})

t.test('refused: an account that no instruction uses, and an account named twice', async (t) => {
  const withKey = (key: PublicKey) =>
    editMessage(
      real,
      payer,
      (message) =>
        new MessageV0({
          ...message,
          header: {
            ...message.header,
            numReadonlyUnsignedAccounts: message.header.numReadonlyUnsignedAccounts + 1,
          },
          staticAccountKeys: [...message.staticAccountKeys, key],
        }),
    )
  t.match(check(withKey(stranger.publicKey)), {
    reason: reasons.undecodable,
    message: /used by an instruction/,
  })
  // Used under both its indexes, so that only the repetition is wrong.
  const twice = editMessage(real, payer, (message) => {
    const index = message.staticAccountKeys.length
    const [first, second, third, fourth] = message.compiledInstructions
    return new MessageV0({
      ...message,
      header: {
        ...message.header,
        numReadonlyUnsignedAccounts: message.header.numReadonlyUnsignedAccounts + 1,
      },
      staticAccountKeys: [...message.staticAccountKeys, new PublicKey(memo)],
      compiledInstructions: [first!, second!, third!, fourth!, { ...fourth!, programIdIndex: index }],
    })
  })
  t.match(check(twice), { reason: reasons.undecodable, message: /named twice/ })
})

t.test('refused: another scheme, network or asset', async (t) => {
  t.match(check({ ...real, scheme: 'upto' }), { reason: reasons.unsupportedScheme })
  t.match(check({ ...real, network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp' }), {
    reason: reasons.networkMismatch,
  })
  t.match(check({ ...real, network: 'solana' }), { reason: reasons.networkMismatch })
  t.match(check(real, { ...terms, asset: addressOf(stranger) }), { reason: reasons.mintMismatch })
})

t.test('refused: terms that name a fee payer who does not settle here', async (t) => {
  const itsTerms = { ...terms, extra: { feePayer: addressOf(stranger) } }
  t.match(check(real, itsTerms), { reason: reasons.feePayerNotManaged })
  t.match(check(real, { ...terms, extra: { feePayer: 7 } }), { reason: reasons.feePayerNotManaged })
  t.ok(check(real, { ...terms, extra: {} }).ok, 'terms without one mean ours')
})

t.test('of several fee payers of a facilitator, none may move its own tokens', async (t) => {
  const both = rulesOf(cast, { feePayers: [addressOf(feePayer), addressOf(payer)] })
  t.match(checkSolanaPayment(real, terms, both), { reason: reasons.feePayerTransferring })
})

t.test('refused: payTo or amounts that are none', async (t) => {
  for (const payTo of [
    '',
    'x',
    '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
    `${terms.payTo}1`,
    '1'.repeat(44),
  ]) {
    t.match(check(real, { ...terms, payTo }), { reason: reasons.recipientMismatch })
  }
  for (const amount of [
    '',
    '-10000',
    '0x2710',
    '1e4',
    '010000',
    '10000.0',
    ' 10000',
    '18446744073719551616',
  ]) {
    t.match(check(real, { ...terms, amount }), { reason: reasons.amountMismatch })
  }
})

t.test('with a memo in the terms, exactly one equal memo is taken', async (t) => {
  const withMemo = termsOf(cast, usdc, { memo: 'order 7' })
  const paid = await realPayment(payer, withMemo, rpcUrl)
  t.ok(check(paid, withMemo).ok)
  t.match(check(real, withMemo), { reason: reasons.memoMismatch })
  t.match(
    check(
      edit(paid, payer, (d) => d.instructions.splice(3)),
      withMemo,
    ),
    { reason: reasons.memoCount },
  )
  const double = edit(paid, payer, (d) => d.instructions.push(d.instructions[3]!))
  t.match(check(double, withMemo), { reason: reasons.memoCount })
  // A lossy reader takes both of these for the expected text.
  const marked = edit(paid, payer, (d) => {
    d.instructions[3] = instruction(memo, Buffer.from('\ufefforder 7'))
  })
  t.match(check(marked, withMemo), { reason: reasons.memoMismatch })
  const replacement = termsOf(cast, usdc, { memo: '\ufffd' })
  const broken = edit(paid, payer, (d) => {
    d.instructions[3] = instruction(memo, Uint8Array.of(0xff))
  })
  t.match(check(broken, replacement), { reason: reasons.memoMismatch })
})

t.test('refused: base64 that is not canonical, and anything that is no string', async (t) => {
  const text = transactionOf(real)
  const urlSafe = Buffer.from(text, 'base64').toString('base64url')
  for (const bad of [
    ` ${text}`,
    `${text}\n`,
    `${text}=`,
    `${text}====`,
    urlSafe === text ? `${text}-` : urlSafe,
    '',
  ]) {
    t.match(check(paymentOf(bad)), { ok: false, reason: reasons.undecodable }, JSON.stringify(bad.slice(-8)))
  }
  for (const bad of [undefined, null, 1, true, {}, [text], new String(text)]) {
    t.match(check(paymentOf(bad)), { ok: false, reason: reasons.payloadTransaction })
  }
  const inherited = Object.create({ transaction: text })
  t.match(check({ ...real, payload: inherited }), { reason: reasons.payloadTransaction })
  t.match(check({ ...real, payload: null as never }), { reason: reasons.payloadTransaction })
})

t.test('caps are options', async (t) => {
  const tight = rulesOf(cast, { maxComputeUnits: 19_999 })
  t.match(checkSolanaPayment(real, terms, tight), { reason: reasons.computeLimitTooHigh })
  const free = rulesOf(cast, { maxMicroLamportsPerUnit: 0 })
  t.match(checkSolanaPayment(real, terms, free), { reason: reasons.computePriceTooHigh })
})

t.test('the clock decides until when a payment may land', async (t) => {
  const checked = checkSolanaPayment(real, terms, rulesOf(cast, { clock: { now: () => 1_000 } }))
  t.match(checked, { identity: { validBeforeMs: 91_000 } })
})

t.test(
  'a payment for other terms is known by its signature: its buyer may be back for what it bought',
  async (t) => {
    const checked = check(real)
    if (!checked.ok) return t.fail(checked.message)
    const forged = edited((draft) => {
      draft.signers = []
    })
    for (const changed of [{ amount: '20000' }, { payTo: addressOf(Keypair.generate()) }]) {
      const now = { ...terms, ...changed }
      t.match(check(real, now), { ok: false, identity: { key: checked.identity.key, amountAtomic: 10_000n } })
      t.match(check(forged, now), { ok: false, identity: undefined })
    }
  },
)
