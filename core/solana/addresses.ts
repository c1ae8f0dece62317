import { base58 } from '@scure/base'

/**
 * The 32 bytes of a base58 address. Undefined if the text is no address. Base58 has one spelling per value, so that equal texts are
 * the same address.
 */
export function readAddress(address: string): Uint8Array | undefined {
  // 32 bytes have 32 to 44 digits, so a longer text is not decoded.
  if (address.length < 32 || address.length > 44) return undefined
  try {
    const bytes = base58.decode(address)
    return bytes.length === 32 ? bytes : undefined
  } catch {
    return undefined
  }
}

/** Addresses of the programs that a payment may call; the same on every cluster. */

/** Sets a transaction's compute limit and price. */
export const computeBudgetProgram = base58.decode('ComputeBudget111111111111111111111111111111')
/** Writes a text into the log. */
export const memoProgram = base58.decode('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')
/** Makes assertions that some wallets add, so that a transaction fails if it would do more than the wallet showed. */
export const lighthouseProgram = base58.decode('L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95')
/** Creates and derives associated token accounts. */
export const associatedTokenProgram = base58.decode('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL')

/** Address of each token program, base58. */
export const tokenProgramAddress = {
  token: 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
  'token-2022': 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb',
} as const

/** The addresses of the token programs as bytes. */
export const tokenProgramBytes = {
  token: base58.decode(tokenProgramAddress.token),
  'token-2022': base58.decode(tokenProgramAddress['token-2022']),
} as const
