import { createHash, randomBytes } from 'node:crypto'

export type TokenKind = 'vat' | 'vow'

const form = /^(?:vat|vow)_[A-Za-z0-9_-]{43}$/

/** A new credential: `vat_` for agents, `vow_` for the owner, and 256 random bits. It is shown once and stored hashed. */
export const createToken = (kind: TokenKind): string => `${kind}_${randomBytes(32).toString('base64url')}`

/** Whether a text could be a credential of this kind; says nothing about its being known. */
export const isToken = (text: string, kind: TokenKind): boolean => form.test(text) && text.startsWith(kind)

/**
 * What is stored of a token, and what it is looked up by: a plain SHA-256, because 256 random bits can't be guessed, and
 * a look-up by it gives nothing away through its timing.
 */
export const hashToken = (token: string): string => createHash('sha256').update(token).digest('base64url')
