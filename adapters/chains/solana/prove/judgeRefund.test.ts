import { base58 } from '@scure/base'
import { Keypair, PublicKey, TransactionInstruction, TransactionMessage } from '@solana/web3.js'
import t from 'tap'
import type { TransferBack } from '../../../../core/ports/chains/refundProofs.ts'
import { tokenProgramAddress, tokenProgramBytes } from '../../../../core/solana/addresses.ts'
import { associatedTokenAddress } from '../../../../core/solana/tokenAccount.ts'
import { addressOf, network, usdc } from '../../../../test/helpers/chains/solana/payments.ts'
import type { LandedMeta } from './landedTransaction.ts'
import { judgeRefund } from './refundProofs.ts'

const [buyer, seller, signer, multisig] = Array.from({ length: 4 }, () => Keypair.generate())
const mint = new PublicKey(usdc.address)
const ataOf = (owner: Keypair) =>
  base58.encode(associatedTokenAddress(owner.publicKey.toBytes(), tokenProgramBytes.token, mint.toBytes()))
const [from, to] = [ataOf(seller!), ataOf(buyer!)]
const expected: TransferBack = {
  network,
  asset: usdc.address,
  from: addressOf(seller!),
  to: addressOf(buyer!),
  amountAtomic: 10_000n,
  transaction: 'refund',
  saleTransaction: 'sale',
}

/** A call of a program that moves the seller's money, as multi-signature wallets do. It has two keys of its own. */
const message = new TransactionMessage({
  payerKey: signer!.publicKey,
  recentBlockhash: addressOf(Keypair.generate()),
  instructions: [
    new TransactionInstruction({ programId: multisig!.publicKey, keys: [], data: Buffer.from([1]) }),
  ],
})
  .compileToV0Message()
  .serialize()

const amountBytes = (amount: bigint) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(amount)
  return [...bytes]
}
const checked = (amount = 10_000n) => [12, ...amountBytes(amount), 6]

/** The token accounts, the mint and the token program come from a lookup table, with the indexes 2, 3, 4, 5. */
const metaOf = (data: number[], more: Partial<Record<'program' | 'before' | 'after', unknown>> = {}) => {
  const { program = tokenProgramAddress.token, before = '0', after = '10000' } = more
  const balance = (accountIndex: number, amount: unknown) => ({
    accountIndex,
    mint: usdc.address,
    uiTokenAmount: { amount: String(amount) },
  })
  return {
    loadedAddresses: { writable: [from, to], readonly: [usdc.address, String(program)] },
    innerInstructions: [
      {
        instructions: [
          { programIdIndex: 5, accounts: [2, 4, 3, 0], data: base58.encode(Uint8Array.from(data)) },
        ],
      },
    ],
    preTokenBalances: [balance(2, 50_000), ...(before === null ? [] : [balance(3, before)])],
    postTokenBalances: [balance(2, 40_000), balance(3, after)],
  } satisfies LandedMeta
}
const judge = (meta: LandedMeta) => judgeRefund(message, meta, expected)

t.test('a transfer that a program made counts, its accounts from lookup tables', async (t) => {
  t.match(judge(metaOf(checked())), { status: 'proved' })
  t.match(judge(metaOf(checked(), { before: null })), { status: 'proved' }, 'the account was made just then')
  t.match(judge(metaOf(checked(), { program: tokenProgramAddress['token-2022'] })), { status: 'proved' })
  t.match(judge(metaOf([26, 1, ...amountBytes(10_000n), 6, ...amountBytes(0n)])), { status: 'proved' })
})

t.test('what a fee of the token took away has not arrived', async (t) => {
  const withFee = [26, 1, ...amountBytes(10_000n), 6, ...amountBytes(1n)]
  t.strictSame(judge(metaOf(withFee, { after: '9999' })), { status: 'mismatch', what: 'amount' })
  const more = [26, 1, ...amountBytes(10_001n), 6, ...amountBytes(1n)]
  t.match(judge(metaOf(more)), { status: 'proved' })
})

t.test('what only reads like a transfer is none', async (t) => {
  const none = { status: 'mismatch', what: 'recipient' }
  t.strictSame(judge(metaOf(checked(), { program: addressOf(Keypair.generate()) })), none, 'another program')
  t.strictSame(judge(metaOf([13, ...checked().slice(1)])), none, 'ApproveChecked')
  t.strictSame(judge(metaOf(checked().slice(0, 9))), none, 'cut off')
  t.strictSame(judge(metaOf([])), none)
  const { innerInstructions: _, ...balancesOnly } = metaOf(checked())
  t.strictSame(judge(balancesOnly), none, 'balances that nothing explains')
  const still = metaOf(checked(), { before: '10000' })
  t.strictSame(judge(still), { status: 'mismatch', what: 'amount' }, 'balances that did not move')
  t.strictSame(judge({}), { status: 'mismatch', what: 'asset' })
  t.equal(judgeRefund(message.subarray(1), metaOf(checked()), expected), undefined)
})
