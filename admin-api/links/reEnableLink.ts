import type { Link } from '../../core/domain/link.ts'
import type { Store } from '../../core/domain/store.ts'
import { PROBES_TO_RE_ENABLE, reEnableStep } from '../../core/domain/suspension.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { isoTime } from '../http/envelope.ts'
import { announceLink } from './announceLink.ts'
import { probeEvent, probeLink } from './linkHealth.ts'

/**
 * Lifts a suspension: its cooldown is over and the API passes two health checks. The operator need not wait, and lifts a
 * permanent one.
 *
 * @returns what to tell whoever asked
 * @throws `RE_ENABLE_FAILED` with `cooldown_until` or `permanent` beside the error, `API_NOT_RESPONDING`
 */
export async function reEnableLink(
  api: Api,
  store: Pick<Store, 'username'>,
  link: Link,
  by: 'seller' | 'operator' = 'seller',
): Promise<string> {
  const step = reEnableStep(link.suspension, api.clock.now())
  switch (by === 'operator' && step !== 'not-suspended' ? 'probe' : step) {
    case 'not-suspended':
      return 'The link is not suspended; calls are served.'
    case 'permanent':
      throw new TollgateError('RE_ENABLE_FAILED', 'The suspension is permanent; ask the operator.', {
        extra: { permanent: true },
      })
    case 'cooling-down':
      throw coolingDown(link.suspension?.cooldownUntilMs ?? 0, api.clock.now())
    case 'probe':
      await passProbes(api, link)
  }
  const nowMs = api.clock.now()
  await api.links.setSuspension(link.id, null, nowMs)
  await api.links.addHealthEvent({
    linkId: link.id,
    atMs: nowMs,
    kind: 're-enabled',
    ok: true,
    status: null,
    latencyMs: null,
    detail: `Re-enabled by the ${by}.`,
  })
  announceLink(api, store.username, link)
  return 'The link is re-enabled; calls are served again.'
}

async function passProbes(api: Api, link: Link): Promise<void> {
  // Both one after the other stay below 10 s, so that the client does not give up meanwhile.
  const timeoutMs = Math.ceil(api.probeTimeoutMs * 0.8)
  for (let passed = 0; passed < PROBES_TO_RE_ENABLE; passed++) {
    const report = await probeLink(api, link, timeoutMs)
    await api.links.addHealthEvent(probeEvent(link.id, report, api.clock.now()))
    if (report.ok) continue
    throw new TollgateError(
      'API_NOT_RESPONDING',
      `The link stays suspended: health check ${passed + 1} of ${PROBES_TO_RE_ENABLE} failed. ${report.detail}`,
    )
  }
}

function coolingDown(untilMs: number, nowMs: number): TollgateError {
  const until = isoTime(untilMs)
  return new TollgateError('RE_ENABLE_FAILED', `The link is cooling down until ${until}; try again then.`, {
    retryAfterSeconds: Math.max(1, Math.ceil((untilMs - nowMs) / 1000)),
    extra: { cooldown_until: until },
  })
}
