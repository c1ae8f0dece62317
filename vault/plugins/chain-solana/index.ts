import { solanaTermsFault } from '../../../core/x402/solanaTermsFault.ts'
import { chainPlugin } from '../../effects/chainPlugin.ts'
import { assemble } from './assemble.ts'
import { decodeMessage } from './decodeMessage.ts'
import { decodeTransaction } from './decodeTransaction.ts'
import { preparePayment } from './preparePayment.ts'

/** Solana and its test clusters: legacy and version 0 transactions, messages. */
export default chainPlugin({
  name: 'chain-solana',
  api: 1,
  family: 'solana',
  decodeTransaction,
  decodeMessage,
  termsFault: solanaTermsFault,
  preparePayment,
  assemble,
})
