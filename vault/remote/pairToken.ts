import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { routeBytes } from '../relay/frames.ts'
import { lengthPrefixed } from './channel/lengthPrefixed.ts'
import { derive, type PreShared, protocol } from './channel/suite.ts'

const prefix = 'vpt_'
const secretBytes = 32

/** What a pair token holds: where to find the vault, and the one-time secret. */
export interface PairToken {
  readonly route: Buffer
  readonly secret: Buffer
}

/** What the vault keeps of a token, base64. The token can not be made from it, and without the token nothing pairs. */
export interface TokenRecord {
  readonly hash: string
  readonly psk: string
}

export const createPairToken = (route: Buffer): PairToken => ({ route, secret: randomBytes(secretBytes) })

/** `vpt_` and 64 letters. */
export const formatPairToken = ({ route, secret }: PairToken): string =>
  prefix + Buffer.concat([route, secret]).toString('base64url')

/** Undefined for what is no token; the reason is never part of a message, for it would quote the secret. */
export function parsePairToken(text: string): PairToken | undefined {
  if (!/^vpt_[A-Za-z0-9_-]{64}$/.test(text)) return undefined
  const bytes = Buffer.from(text.slice(prefix.length), 'base64url')
  return { route: bytes.subarray(0, routeBytes), secret: bytes.subarray(routeBytes) }
}

export const tokenRecordOf = (token: PairToken): TokenRecord => ({
  hash: hashOf(token).toString('base64'),
  psk: derive(token.secret, token.route, `${protocol} psk`).toString('base64'),
})

/** The pre-shared key of RFC 9180, section 5.1.4; its id is the routing id, which is no secret. */
export const preSharedOf = ({ psk }: TokenRecord, route: Buffer): PreShared => ({
  id: route,
  key: Buffer.from(psk, 'base64'),
})

/** Hides the headers of the first message, before there is a key of the pairing's own. */
export const tokenHeaderKey = ({ psk }: TokenRecord, route: Buffer): Buffer =>
  derive(Buffer.from(psk, 'base64'), route, `${protocol} pairing header`)

/** Compares in constant time. */
export const isTokenOf = (token: PairToken, { hash }: TokenRecord): boolean =>
  timingSafeEqual(hashOf(token), Buffer.from(hash, 'base64'))

const hashOf = (token: PairToken): Buffer =>
  createHash('sha256')
    .update(lengthPrefixed(protocol, 'token', token.route, token.secret))
    .digest()
