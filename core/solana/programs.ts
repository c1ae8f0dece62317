import { base58 } from '@scure/base'

/** Addresses of the programs that a payment may call; the same on every cluster. */

/** Sets a transaction's compute limit and price. */
export const computeBudgetProgram = base58.decode('ComputeBudget111111111111111111111111111111')
/** Writes a text into the log. */
export const memoProgram = base58.decode('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')
/** Assertions that some wallets add, so that a transaction fails when it would do more than they showed. */
export const lighthouseProgram = base58.decode('L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95')
/** Makes and names associated token accounts. */
export const associatedTokenProgram = base58.decode('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL')

/** Address of each token program, base58. */
export const tokenProgramAddress = {
  token: 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
  'token-2022': 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb',
} as const

/** The same as bytes. */
export const tokenProgramBytes = {
  token: base58.decode(tokenProgramAddress.token),
  'token-2022': base58.decode(tokenProgramAddress['token-2022']),
} as const
