/**
 * Lamports that a new token account on Solana has to hold, by the program that owns its mint: 6,960 for each byte and for 128
 * bytes of overhead. Accounts of Token have 165 bytes. Those of Token-2022 grow with the extensions of the mint; this is at
 * most: 400 bytes more than any has today.
 */
export const accountRent = { token: 2_039_280n, 'token-2022': 4_900_000n } as const
