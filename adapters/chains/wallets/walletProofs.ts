import { base58 } from '@scure/base'
import { canonicalAddress } from '../../../core/domain/address.ts'
import { type ChainName, chainFamilyOf, familyOf, type NetworkId } from '../../../core/domain/network.ts'
import { TollgateError } from '../../../core/errors/error.ts'
import { keccak256 } from '../../../core/evm/hex.ts'
import type { SignInFields, WalletProof, WalletProofs } from '../../../core/ports/chains/wallets.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import { verifyEd25519 } from '../../../core/solana/ed25519.ts'
import { decodeStrictBase64 } from '../../../core/x402/header.ts'
import { signInText } from '../../../core/x402/signInText.ts'
import { AccountCode } from '../evm/check/accountCode.ts'
import { recoverSigner } from '../evm/check/authorization.ts'
import { createContractJudge } from '../evm/check/contractSignature.ts'
import { createEvmRpc } from '../evm/rpc/nodes.ts'

/** Gas limit of a contract wallet's own check. A check with a passkey uses about 350,000. */
const MAX_CHECK_GAS = 1_000_000
/** Longest signature in characters. Proofs of contract wallets are long, but all known ones are shorter. */
const MAX_SIGNATURE_CHARS = 65_536
const hexForm = /^0x(?:[0-9a-fA-F]{2})+$/

interface WalletProofsOptions {
  /** Nodes for the checks of contract wallets (ERC-1271, ERC-6492). Without nodes, only accounts with a key can sign in. */
  readonly evmRpcUrls?: readonly string[]
  /**
   * The only EVM chain that wallets sign in on. The signed text contains it. Default 8453, Base. Nodes of other chains are not
   * used, because the same address can have another owner there.
   */
  readonly evmChainId?: number
  /** Timeout of one request to a node, in ms. Default 10,000. */
  readonly rpcTimeoutMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * Creates the proofs of wallet ownership. Their creation sends no request. This process checks the signatures of accounts with a
 * key.
 */
export function createWalletProofs(options: WalletProofsOptions = {}): WalletProofs {
  const { evmRpcUrls = [], evmChainId = 8453, rpcTimeoutMs = 10_000 } = options
  const { clock = systemClock, log = silentLog } = options
  const network: NetworkId = `eip155:${evmChainId}`
  const judge = evmRpcUrls.length === 0 ? undefined : judgeFor()

  function judgeFor() {
    const rpc = createEvmRpc({ urls: evmRpcUrls, network, timeoutMs: rpcTimeoutMs, clock, log })
    // Any factory is allowed, because the check sends no transaction and a factory can deploy code only at its own addresses.
    return createContractJudge({
      rpc,
      code: new AccountCode(rpc),
      maxGas: MAX_CHECK_GAS,
      mayCall: () => true,
    })
  }

  const proofOnEvm: WalletProofs['proofOf'] = async (named, address, message, signature) => {
    const wallet = canonicalAddress('eip155', address)?.toLowerCase()
    if (wallet === undefined || signature.length > MAX_SIGNATURE_CHARS || !hexForm.test(signature))
      return undefined
    const digest = personalDigest(message)
    const proof = signature.toLowerCase()
    if (recoverSigner(digest, proof) === wallet) return { network: null }
    if (named !== network) return 'unchecked'
    const isValid = judge !== undefined && (await judge(wallet, digest, proof)) === 'valid'
    return isValid ? { network } : undefined
  }

  return {
    canonicalAddress: (chain, address) => canonicalAddress(chainFamilyOf(chain), address),
    signInMessage: (fields) => checkedText(fields, evmChainId),
    proofOf: async (named, ...signed) =>
      familyOf(named) === 'solana' ? proofOnSolana(...signed) : proofOnEvm(named, ...signed),
    verifyMessage: async (chain, ...signed) =>
      (chain === 'solana' ? proofOnSolana(...signed) : await proofOnEvm(network, ...signed)) !== undefined,
  }
}

function proofOnSolana(address: string, message: string, signature: string): WalletProof | undefined {
  const canonical = canonicalAddress('solana', address)
  if (canonical === undefined) return undefined
  const key = base58.decode(canonical)
  const text = Buffer.from(message, 'utf8')
  const isProof = solanaSignatures(signature).some((bytes) => verifyEd25519(key, text, bytes))
  return isProof ? { network: null } : undefined
}

/** The 32 bytes that a wallet signs for a text. @see https://eips.ethereum.org/EIPS/eip-191, version 0x45 */
function personalDigest(message: string): Uint8Array {
  const text = Buffer.from(message, 'utf8')
  return keccak256(Buffer.concat([Buffer.from(`\x19Ethereum Signed Message:\n${text.length}`, 'utf8'), text]))
}

/**
 * Returns the signatures of 64 bytes that a text may encode in base64 or base58. A few texts are valid in both encodings, so both
 * are tried.
 */
function solanaSignatures(text: string): Uint8Array[] {
  const readings: Uint8Array[] = []
  const fromBase64 = text.length === 88 ? decodeStrictBase64(text, 64) : undefined
  if (fromBase64 !== undefined) readings.push(fromBase64)
  if (/^[1-9A-HJ-NP-Za-km-z]{64,88}$/.test(text)) readings.push(base58.decode(text))
  return readings
}

/**
 * The text that a wallet signs. A line break inside a field is refused, because it could forge another field.
 *
 * @throws {TollgateError} `VALIDATION_ERROR` for a field that the formats do not allow
 */
function checkedText(fields: SignInFields, evmChainId: number): string {
  const { chain, address, domain, uri, statement, nonce, network } = fields
  for (const [name, form] of Object.entries(forms)) {
    if (!form.test(fields[name as keyof typeof forms])) {
      throw new TollgateError(
        'VALIDATION_ERROR',
        `The sign-in text cannot contain this ${name}. Expected ${form}.`,
      )
    }
  }
  const account = chain === 'solana' ? 'Solana' : 'Ethereum'
  const issuedAt = new Date(fields.issuedAtMs).toISOString()
  const expirationTime = new Date(fields.expiresAtMs).toISOString()
  const text = { domain, uri, statement, version: '1', nonce, issuedAt, expirationTime }
  return signInText(text, account, address, referenceOf(chain, network, evmChainId))
}

/** The CAIP-2 reference of the network that the text names. The dashboard's text for Solana names none. */
function referenceOf(
  chain: ChainName,
  network: NetworkId | undefined,
  evmChainId: number,
): string | undefined {
  if (network !== undefined) return network.slice(network.indexOf(':') + 1)
  return chain === 'solana' ? undefined : String(evmChainId)
}

const forms = {
  address: /^[0-9A-Za-z]+$/,
  /** An RFC 3986 authority (host and port). The pattern leaves no room for text that reads as a sentence. */
  domain: /^[0-9A-Za-z.\-_~[\]:]+$/,
  uri: /^[a-z][a-z0-9+.-]*:[\x21-\x7e]+$/i,
  statement: /^[\x20-\x7e]+$/,
  /** At least 8 letters or digits (EIP-4361). */
  nonce: /^[0-9A-Za-z]{8,}$/,
} as const
