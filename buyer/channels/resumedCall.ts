import { reportWithoutPayment } from '../conclude.ts'
import type { Deadline } from '../httpCall.ts'
import type { SavedPayment } from '../payOptions.ts'
import type { PayReport } from '../payReport.ts'
import type { Sent } from '../sendPayment.ts'
import { signedIn } from './channelRecord.ts'
import { readCorrection } from './channelResponse.ts'
import { type CallConclusion, concludeCall } from './concludeCall.ts'
import { channelInUse, lockChannel } from './payByChannel.ts'

export interface ResumedCall {
  /** Sends the stored payment again. */
  readonly send: () => Promise<Sent>
  readonly stateFile: string
  readonly options: CallConclusion['options']
  readonly deadline: Deadline
}

/**
 * Resumes a call of an earlier run, whose voucher is sent again while no other run uses the channel. If the seller says that the channel
 * has moved on, the voucher's call may have been charged, so the run ends instead of paying for it again.
 */
export async function resumeByChannel(
  file: SavedPayment,
  { send, stateFile, options, deadline }: ResumedCall,
): Promise<PayReport> {
  const { url, summary, payment } = file
  const { payments } = options
  const voucher = signedIn(payment)
  const lock = await lockChannel(options, voucher.channelId, deadline.calls)
  if (lock === undefined) return reportWithoutPayment('under_way', channelInUse, url, null)
  try {
    const sent = await send()
    const { network, payload } = payment
    const fresh = { tollgateChannel: 1, id: voucher.channelId, network, url, charged: '0', payload } as const
    const record = (await payments.findChannel(voucher.channelId)) ?? fresh
    const report = await concludeCall({
      url,
      summary,
      payment,
      // The earlier run may have reached the server, even if this run does not.
      sent: { ...sent, mayHaveLeft: true },
      record,
      options,
      stateFile,
      signal: deadline.all,
      warnings: [],
    })
    const { response } = sent
    const correction = response === null ? undefined : await readCorrection(response, voucher, network)
    if (correction == null) return report
    const { total } = correction
    await payments.saveChannel({ ...record, charged: String(total) })
    if (total <= voucher.maxClaimable - BigInt(payment.amount)) return report
    return {
      ...report,
      outcome: 'bad_response',
      charged: 'unknown',
      message:
        'An earlier run may have been charged for this call, and the seller no longer has its response, because later calls followed on the channel. The same command now pays for a new call.',
    }
  } finally {
    lock.release()
  }
}
