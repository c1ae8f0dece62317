import { createHash } from 'node:crypto'

/** How long a sign-in text can be used, in ms. */
export const nonceLifeMs = 5 * 60_000
export const statement = 'Sign in to open your store. This costs nothing and moves no money.'

/** The nonce that a sign-in text names; EIP-4361 and the Solana text write it alike. */
export const nonceIn = (message: string): string | undefined =>
  /^Nonce: ([A-Za-z0-9]{8,64})$/m.exec(message)?.[1]

export const messageHashOf = (message: string): string => createHash('sha256').update(message).digest('hex')
