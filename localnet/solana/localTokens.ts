import type { LiteSVM } from 'litesvm'
import { LocalChainError } from '../jsonRpcClient.ts'
import { SYSTEM_PROGRAM } from './addresses.ts'
import { readAccount, writeAccount } from './svmAccount.ts'
import {
  ataAddress,
  type Mint,
  readMint,
  readTokenAccount,
  writeMint,
  writeTokenAccount,
} from './tokenAccount.ts'
/**
 * Bytes of a program that always succeeds. They are `mov64 r0, 0` and `exit` in the smallest ELF file that the loader accepts (one
 * segment, one section `.text`). The program is installed at the address of Lighthouse, because wallets add Lighthouse's assertions
 * to what they sign.
 */
export const lighthouseStandIn: Uint8Array = Buffer.from(
  [
    'f0VMRgIBAQAAAAAAAAAAAAMA9wABAAAAeAAAAAAAAABAAAAAAAAAAKAAAAAAAAAAAAAAAEAAOAABAEAAAwACAAEAAAAFAAAA',
    'eAAAAAAAAAB4AAAAAAAAAHgAAAAAAAAAEAAAAAAAAAAQAAAAAAAAAAgAAAAAAAAAtwAAAAAAAACVAAAAAAAAAAAudGV4dAAu',
    'c2hzdHJ0YWIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAAAAAAAAA',
    'AAAAAAAAAAABAAAAAQAAAAYAAAAAAAAAeAAAAAAAAAB4AAAAAAAAABAAAAAAAAAAAAAAAAAAAAAIAAAAAAAAAAAAAAAAAAAA',
    'BwAAAAMAAAAAAAAAAAAAAAAAAAAAAAAAiAAAAAAAAAARAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAA==',
  ].join(''),
  'base64',
)

const DECIMALS = 6

/** Writes token state directly, without the token programs. */
export type LocalTokens = {
  createMint(mint: string, tokenProgram: string): void
  ataAddress(owner: string, mint: string): string
  createAta(owner: string, mint: string): string
  mintTo(mint: string, owner: string, amountAtomic: bigint): void
  balance(mint: string, owner: string): bigint
}

/** Creates the functions that write mints, token accounts and balances directly into the state of a local chain. */
export function createLocalTokens(svm: LiteSVM): LocalTokens {
  const rent = (bytes: number) => svm.minimumBalanceForRentExemption(BigInt(bytes))
  const write = (address: string, owner: string, data: Uint8Array) =>
    writeAccount(svm, address, { lamports: rent(data.length), owner, data, executable: false })
  const mintOf = (address: string): { mint: Mint; program: string } => {
    const account = readAccount(svm, address)
    const mint = account === undefined ? undefined : readMint(account.data)
    if (account === undefined || mint === undefined) {
      throw new LocalChainError(
        'local_chain_rpc_error',
        `Expected a mint of the local Solana chain, got ${address}; use usdcMint or token2022Mint.`,
      )
    }
    return { mint, program: account.owner }
  }
  const addressOf = (owner: string, mint: string) => ataAddress(owner, mint, mintOf(mint).program)
  const createAta = (owner: string, mint: string) => {
    const address = addressOf(owner, mint)
    if (readAccount(svm, address) === undefined) {
      write(address, mintOf(mint).program, writeTokenAccount({ mint, owner, amount: 0n }))
    }
    return address
  }

  return {
    createMint(mint, tokenProgram) {
      // The authority is the system program, which signs nothing, so that no transaction can mint.
      const state = { mintAuthority: SYSTEM_PROGRAM, supply: 0n, isInitialized: true, freezeAuthority: null }
      write(mint, tokenProgram, writeMint({ ...state, decimals: DECIMALS }))
    },
    ataAddress: addressOf,
    createAta,
    mintTo(mint, owner, amountAtomic) {
      const address = createAta(owner, mint)
      const account = readAccount(svm, address)!
      // Only the amount is written, so that a delegate, a freeze or an extension stays.
      const data = Buffer.from(account.data)
      data.writeBigUInt64LE(readTokenAccount(account.data)!.amount + amountAtomic, AMOUNT_OFFSET)
      writeAccount(svm, address, { ...account, data })
      const { mint: state, program } = mintOf(mint)
      write(mint, program, writeMint({ ...state, supply: state.supply + amountAtomic }))
    },
    balance(mint, owner) {
      const account = readAccount(svm, addressOf(owner, mint))
      return account === undefined ? 0n : (readTokenAccount(account.data)?.amount ?? 0n)
    },
  }
}

/** Offset of the amount in a token account, after mint and owner. */
const AMOUNT_OFFSET = 64
