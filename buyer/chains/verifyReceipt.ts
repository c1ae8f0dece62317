import { familyOf } from '../../core/domain/network.ts'
import type { ReceiptQuery, ReceiptVerdict } from '../buyer.ts'
import { verifyEvmReceipt } from './evmReceipt.ts'
import { publicRpcUrl } from './jsonRpc.ts'
import { verifySolanaReceipt } from './solanaReceipt.ts'

/**
 * Asks the payment's own chain whether it was paid, exactly as signed. No key is needed, so a later run can ask again.
 *
 * @param rpcUrl default: the network's public node
 */
export async function verifyReceipt(query: ReceiptQuery, rpcUrl?: string): Promise<ReceiptVerdict> {
  const url = rpcUrl ?? publicRpcUrl(query.payment.network)
  if (url === undefined) {
    const problem = `no node of ${query.payment.network} is known; name one with --rpc`
    return { isVerified: false, charged: 'unknown', transaction: null, problem }
  }
  const verify = familyOf(query.payment.network) === 'solana' ? verifySolanaReceipt : verifyEvmReceipt
  return await verify(url, query)
}
