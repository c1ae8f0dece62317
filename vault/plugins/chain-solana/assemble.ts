import { base58 } from '@scure/base'
import { readAddress } from '../../../core/solana/address.ts'
import { sameBytes } from '../../../core/solana/bytes.ts'
import { verifyEd25519 } from '../../../core/solana/ed25519.ts'
import { readMessage } from '../../../core/solana/message.ts'
import { readWireTransaction } from '../../../core/solana/wire.ts'
import type { Assembled } from '../../effects/chainPlugin.ts'
import type { Decoded } from '../../effects/decoded.ts'

/**
 * Puts our signature into its slot of the transaction that was shown, after verifying it as strictly as the cluster does.
 *
 * @param signature 64 bytes
 * @throws {TypeError} when it is not our signature over these bytes
 */
export function assemble(decoded: Decoded, signature: Uint8Array): Assembled {
  const ours = readAddress(decoded.from)
  if (ours === undefined || !verifyEd25519(ours, decoded.signingBytes, signature))
    throw new TypeError('Expected a signature of 64 bytes by the account over the bytes that were shown.')
  if (decoded.signKind !== 'solana-transaction')
    return { signedTx: null, signature: base58.encode(signature) }
  const bytes = Uint8Array.from(decoded.frozenBytes)
  const wire = readWireTransaction(bytes)
  const keys = wire === undefined ? undefined : readMessage(wire.message)?.keys
  const slot = wire?.signatures[keys?.findIndex((key) => sameBytes(key, ours)) ?? -1]
  if (slot === undefined) throw new TypeError('Expected a transaction with a slot for our signature.')
  slot.set(signature)
  return { signedTx: Buffer.from(bytes).toString('base64'), signature: base58.encode(signature) }
}
