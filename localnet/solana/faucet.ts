import { Keypair, PublicKey, SystemProgram, Transaction, TransactionInstruction } from '@solana/web3.js'
import type { LiteSVM } from 'litesvm'
import { MEMO_PROGRAM, SYSTEM_PROGRAM } from './addresses.ts'
import type { Ledger } from './ledger.ts'
import { type SvmAddress, writeAccount } from './svmAccount.ts'
import { readTransaction } from './wireTransaction.ts'

const FAUCET_LAMPORTS = 10n ** 18n

/** Makes `airdrop`: real transfers from an account of endless SOL, so that they show up in the history. */
export function createFaucet(svm: LiteSVM, ledger: Ledger): (address: string, lamports: bigint) => string {
  const faucet = Keypair.generate()
  const own = faucet.publicKey.toBase58() as SvmAddress
  let count = 0
  return (address, lamports) => {
    const account = {
      lamports: FAUCET_LAMPORTS,
      data: new Uint8Array(),
      owner: SYSTEM_PROGRAM,
      executable: false,
    }
    writeAccount(svm, own, account)
    const { blockhash } = ledger.latestBlockhash('processed')
    const transfer = new Transaction({
      feePayer: faucet.publicKey,
      recentBlockhash: blockhash,
      signatures: [],
    })
    transfer.add(
      SystemProgram.transfer({ fromPubkey: faucet.publicKey, toPubkey: new PublicKey(address), lamports }),
      // Two equal airdrops in one slot would be one message, and the second would be a duplicate.
      new TransactionInstruction({
        programId: new PublicKey(MEMO_PROGRAM),
        keys: [],
        data: Buffer.from(`airdrop ${++count}`),
      }),
    )
    transfer.sign(faucet)
    const transaction = readTransaction(transfer.serialize())
    const landed = ledger.land(transaction)
    if (landed === undefined || landed.error !== null) {
      throw new Error(
        `The airdrop of ${lamports} lamports to ${address} failed: ${JSON.stringify(landed?.error)}`,
      )
    }
    return transaction.signature
  }
}
