import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { derive, lengthPrefixed, type PreShared, protocol } from '../channel/suite.ts'
import { routeBytes } from '../relay/frames.ts'

const prefix = 'vpt_'
const secretBytes = 32

/** The content of a pair token: the route to the vault, and the one-time secret. */
export interface PairToken {
  readonly route: Buffer
  readonly secret: Buffer
}

/** What the vault stores of a token, in base64. It does not reveal the token, and pairing requires the token. */
export interface TokenRecord {
  readonly hash: string
  readonly psk: string
}

export const createPairToken = (route: Buffer): PairToken => ({ route, secret: randomBytes(secretBytes) })

/** The text of a token, which is `vpt_` and 64 letters. */
export const formatPairToken = ({ route, secret }: PairToken): string =>
  prefix + Buffer.concat([route, secret]).toString('base64url')

/** Parses a pair token. Undefined for an invalid token, without a reason, because a message would quote the secret. */
export function parsePairToken(text: string): PairToken | undefined {
  if (!/^vpt_[A-Za-z0-9_-]{64}$/.test(text)) return undefined
  const bytes = Buffer.from(text.slice(prefix.length), 'base64url')
  return { route: bytes.subarray(0, routeBytes), secret: bytes.subarray(routeBytes) }
}

export const tokenRecordOf = (token: PairToken): TokenRecord => ({
  hash: hashOf(token).toString('base64'),
  psk: derive(token.secret, token.route, `${protocol} psk`).toString('base64'),
})

/** The pre-shared key of RFC 9180, section 5.1.4. Its id is the routing id, which is not secret. */
export const preSharedOf = ({ psk }: TokenRecord, route: Buffer): PreShared => ({
  id: route,
  key: Buffer.from(psk, 'base64'),
})

/** The key for the header of the first message, before the pairing has a header key of its own. */
export const tokenHeaderKey = ({ psk }: TokenRecord, route: Buffer): Buffer =>
  derive(Buffer.from(psk, 'base64'), route, `${protocol} pairing header`)

/** Compares in constant time. */
export const isTokenOf = (token: PairToken, { hash }: TokenRecord): boolean =>
  timingSafeEqual(hashOf(token), Buffer.from(hash, 'base64'))

const hashOf = (token: PairToken): Buffer =>
  createHash('sha256')
    .update(lengthPrefixed(protocol, 'token', token.route, token.secret))
    .digest()
