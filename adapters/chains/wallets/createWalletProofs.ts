import { base58 } from '@scure/base'
import { canonicalAddress } from '../../../core/domain/address.ts'
import { chainFamilyOf } from '../../../core/domain/network.ts'
import { keccak256 } from '../../../core/evm/keccak.ts'
import type { WalletProofs } from '../../../core/ports/chains/wallets.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import { verifyEd25519 } from '../../../core/solana/ed25519.ts'
import { decodeStrictBase64 } from '../../../core/x402/header.ts'
import { createAccountCode } from '../evm/check/accountCode.ts'
import { createContractJudge } from '../evm/check/contractJudge.ts'
import { recoverSigner } from '../evm/check/recoverSigner.ts'
import { createEvmRpc } from '../evm/rpc/createEvmRpc.ts'
import { signInText } from './signInText.ts'

/** Gas for a contract wallet's own check; a passkey's takes about 350,000. */
const MAX_CHECK_GAS = 1_000_000
/** Proofs of contract wallets are long; this is more than any that is known. */
const MAX_SIGNATURE_CHARS = 65_536
const hexForm = /^0x(?:[0-9a-fA-F]{2})+$/

export interface WalletProofsOptions {
  /** Nodes for contract wallets (ERC-1271, ERC-6492). Without them only accounts with a key can sign in. */
  readonly evmRpcUrls?: readonly string[]
  /**
   * The one EVM chain that wallets sign in on; it stands in the text. Default 8453, Base. Nodes of other chains are not
   * believed: the same address can belong to somebody else there.
   */
  readonly evmChainId?: number
  /** Limit of one request to a node, in ms. Default 10,000. */
  readonly rpcTimeoutMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/** Makes the proofs of who owns a wallet. Creation sends nothing; accounts with a key are checked in this process. */
export function createWalletProofs(options: WalletProofsOptions = {}): WalletProofs {
  const { evmRpcUrls = [], evmChainId = 8453, rpcTimeoutMs = 10_000 } = options
  const { clock = systemClock, log = silentLog } = options
  const judge = evmRpcUrls.length === 0 ? undefined : judgeFor()

  function judgeFor() {
    const rpc = createEvmRpc({ urls: evmRpcUrls, chainId: evmChainId, timeoutMs: rpcTimeoutMs, clock, log })
    // Any factory: nothing is sent, and no factory can put code at an address that is not its own to give.
    return createContractJudge({
      rpc,
      code: createAccountCode(rpc),
      maxGas: MAX_CHECK_GAS,
      mayCall: () => true,
    })
  }

  const verifyEvm = async (address: string, message: string, signature: string): Promise<boolean> => {
    if (signature.length > MAX_SIGNATURE_CHARS || !hexForm.test(signature)) return false
    const digest = personalDigest(message)
    const [wallet, proof] = [address.toLowerCase(), signature.toLowerCase()]
    if (recoverSigner(digest, proof) === wallet) return true
    return judge !== undefined && (await judge(wallet, digest, proof)) === 'valid'
  }

  return {
    canonicalAddress: (chain, address) => canonicalAddress(chainFamilyOf(chain), address),
    signInMessage: (fields) => signInText(fields, evmChainId),
    async verifyMessage(chain, address, message, signature) {
      const canonical = canonicalAddress(chainFamilyOf(chain), address)
      if (canonical === undefined) return false
      if (chain !== 'solana') return verifyEvm(canonical, message, signature)
      const key = base58.decode(canonical)
      return solanaSignatures(signature).some((bytes) =>
        verifyEd25519(key, Buffer.from(message, 'utf8'), bytes),
      )
    },
  }
}

/** The 32 bytes that a wallet signs for a text. @see https://eips.ethereum.org/EIPS/eip-191, version 0x45 */
function personalDigest(message: string): Uint8Array {
  const text = Buffer.from(message, 'utf8')
  return keccak256(Buffer.concat([Buffer.from(`\x19Ethereum Signed Message:\n${text.length}`, 'utf8'), text]))
}

/** The 64 bytes that a text may stand for: base64 or base58. Few texts are both, so both readings are tried. */
function solanaSignatures(text: string): Uint8Array[] {
  const readings: Uint8Array[] = []
  const fromBase64 = text.length === 88 ? decodeStrictBase64(text, 64) : undefined
  if (fromBase64 !== undefined) readings.push(fromBase64)
  if (/^[1-9A-HJ-NP-Za-km-z]{64,88}$/.test(text)) readings.push(base58.decode(text))
  return readings
}
