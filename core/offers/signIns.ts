import { randomBytes, timingSafeEqual } from 'node:crypto'
import { chainNameOf, type NetworkId } from '../domain/network.ts'
import { TollgateError } from '../errors/error.ts'
import type { WalletProofs } from '../ports/chains/wallets.ts'
import type { Clock } from '../ports/clock.ts'
import type { Sealer } from '../ports/sealer.ts'
import type { SignInNonces } from '../ports/store/stores.ts'
import { readSignIn, type SignInInfo, type SignInProof } from '../x402/signIn.ts'

/** How long an offer to sign in is valid, in ms. */
export const SIGN_IN_LIFE_MS = 5 * 60_000
/** Allowed difference between the clocks of the gateways of one database, in ms. A used nonce is remembered for this time longer. */
const CLOCK_DIFFERENCE_MS = 10 * 60_000

const RANDOM_CHARS = 16

/** What a wallet signs in to. */
export interface SignInTarget {
  /** The id of the link or purchase. A sign-in to one is worth nothing at another. */
  readonly id: string
  /** The address of the link or purchase, under the public URL of the service. */
  readonly uri: string
  /** One line of plain text that the wallet shows to its owner. */
  readonly statement: string
  readonly networks: readonly NetworkId[]
}

/** A wallet that has signed in. */
export interface ProvenWallet {
  /** The address in the spelling that Tollgate stores. */
  readonly address: string
  /** The network that the wallet has named. */
  readonly named: NetworkId
  /** The only network on which the wallet is proven. Null for all networks of its chain. */
  readonly network: NetworkId | null
}

export interface SignInDeps {
  readonly sealer: Pick<Sealer, 'mac'>
  readonly walletProofs: Pick<WalletProofs, 'signInMessage' | 'proofOf'>
  readonly nonces: Pick<SignInNonces, 'use'>
  readonly clock: Clock
  readonly publicUrl: string
}

/**
 * Offers to sign in with a wallet, and checks the sign-ins. A nonce is made with the server's secret, so that an offer writes nothing
 * to the database. Only the nonce of an accepted sign-in is stored, in the database of all gateways, so that it is accepted once.
 */
export class SignIns {
  readonly #deps: SignInDeps
  readonly #domain: string

  constructor(deps: SignInDeps) {
    this.#deps = deps
    this.#domain = new URL(deps.publicUrl).host
  }

  /** The text to sign, with a new nonce. */
  offer({ id, uri, statement }: SignInTarget): SignInInfo {
    const issuedAtMs = this.#deps.clock.now()
    const issuedAt = new Date(issuedAtMs).toISOString()
    const random = randomBytes(RANDOM_CHARS / 2).toString('hex')
    const nonce = random + this.#markOf(id, random, issuedAt).toString('hex')
    const expirationTime = new Date(issuedAtMs + SIGN_IN_LIFE_MS).toISOString()
    return { domain: this.#domain, uri, statement, version: '1', nonce, issuedAt, expirationTime }
  }

  /**
   * Checks a sign-in. The sign-in can still be used once, see {@link use}.
   *
   * @throws `invalid_sign_in` with the reason that the extension's package uses; `settlement_unavailable` if a contract wallet cannot
   *   be queried
   */
  async prove(proof: SignInProof, { id, uri, statement, networks }: SignInTarget): Promise<ProvenWallet> {
    const { clock, walletProofs } = this.#deps
    const { network, address, nonce, signature } = proof
    if (proof.domain !== this.#domain)
      throw refused('domain_mismatch', `Expected the domain ${this.#domain}, got another one.`)
    if (proof.uri !== uri) throw refused('uri_mismatch', `Expected the uri ${uri}, got another one.`)
    if (!networks.includes(network))
      throw refused('unsupported_chain', `Expected a chainId of ${networks.join(', ')}, got another one.`)
    if (!this.#isOwn(id, proof)) throw refused('nonce', 'Expected a nonce of this gateway, got another one.')
    const issuedAtMs = Date.parse(proof.issuedAt)
    const expiresAtMs = issuedAtMs + SIGN_IN_LIFE_MS
    if (clock.now() >= expiresAtMs)
      throw refused('expired', 'The offer to sign in was valid for five minutes.')
    const chain = chainNameOf(network)
    const { domain } = proof
    const message = walletProofs.signInMessage({
      chain,
      address,
      domain,
      uri,
      statement,
      nonce,
      issuedAtMs,
      expiresAtMs,
      network,
    })
    const proven = await walletProofs
      .proofOf(network, address, message, signature)
      .catch((cause: unknown) => {
        const failed = 'The wallet could not be verified on chain. Try again.'
        throw new TollgateError('settlement_unavailable', failed, { cause, retryAfterSeconds: 5 })
      })
    if (proven === undefined)
      throw refused('signature', 'Expected a signature of the offered text by this address.')
    if (proven === 'unchecked')
      throw refused(
        'unsupported_chain',
        // A contract at the same address on another network can have another owner, so a check there would prove nothing.
        `Expected a signature by the key of this address, because contract wallets of ${network} are not checked. Name another network, or use a wallet that signs by a key.`,
      )
    return { address, named: network, network: proven.network }
  }

  /**
   * Uses up a proven sign-in. The nonce is remembered from `issuedAt` on and not from now on, because the gateway that has made the
   * offer may have a faster clock. The sign-in is then valid for longer than its life.
   *
   * @throws `invalid_sign_in` if it was already used
   */
  async use({ nonce, issuedAt }: SignInProof): Promise<void> {
    const keptUntilMs = Date.parse(issuedAt) + SIGN_IN_LIFE_MS + CLOCK_DIFFERENCE_MS
    if (!(await this.#deps.nonces.use(nonce, keptUntilMs)))
      throw refused('nonce', 'This sign-in was already used. Each sign-in is for one request.')
  }

  #markOf(id: string, random: string, issuedAt: string): Buffer {
    return this.#deps.sealer.mac('sign-in', `${id}|${random}|${issuedAt}`).subarray(0, 16)
  }

  #isOwn(id: string, { nonce, issuedAt }: SignInProof): boolean {
    if (!/^[0-9a-f]{48}$/.test(nonce)) return false
    const mark = Buffer.from(nonce.slice(RANDOM_CHARS), 'hex')
    return timingSafeEqual(mark, this.#markOf(id, nonce.slice(0, RANDOM_CHARS), issuedAt))
  }
}

/** @throws `invalid_sign_in` for a header that cannot be read */
export function signInOf(header: string): SignInProof {
  const read = readSignIn(header)
  if (read.ok) return read.proof
  throw new TollgateError('invalid_sign_in', read.message, { isUnread: true })
}

const refused = (reason: string, message: string): TollgateError =>
  new TollgateError('invalid_sign_in', `${message} Sign the offer of this response.`, {
    reason: `invalid_siwx_${reason}`,
  })
