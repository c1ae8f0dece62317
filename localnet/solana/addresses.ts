/** Programs and accounts of Solana devnet that the local chain has at the same addresses. */

/** SPL Token. */
export const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
/** SPL Token-2022. */
export const TOKEN_2022_PROGRAM = 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb'
/** Creates and derives associated token accounts. */
export const ASSOCIATED_TOKEN_PROGRAM = 'ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL'
/** Sets a transaction's compute limit and price. */
export const COMPUTE_BUDGET_PROGRAM = 'ComputeBudget111111111111111111111111111111'
/** Owner of plain wallets. */
export const SYSTEM_PROGRAM = '11111111111111111111111111111111'

/** USDC on devnet. @see https://developers.circle.com/stablecoins/usdc-contract-addresses */
export const DEVNET_USDC_MINT = '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU'
/** A Token-2022 mint without extensions, with 6 decimals. It exists only on local chains. */
export const LOCAL_TOKEN_2022_MINT = 'FRK1TJ4Juw9wLaUSQ6bVo1RA46ebNywqW2eQN9rEaHre'

/** Genesis hash of devnet. Its first 32 characters name the network in CAIP-2. */
export const DEVNET_GENESIS_HASH = 'EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG'
/** CAIP-2 name of devnet. @see https://namespaces.chainagnostic.org/solana/caip2 */
export const DEVNET_NETWORK = `solana:${DEVNET_GENESIS_HASH.slice(0, 32)}`
/** SPL Memo, version 2. */
export const MEMO_PROGRAM = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr'
/** Lighthouse, whose assertions wallets add. The local chain has a program at this address that never fails. */
export const LIGHTHOUSE_PROGRAM = 'L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95'
