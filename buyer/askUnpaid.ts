import { callOnce, distinct, type HttpAnswer, type HttpCall, HttpFailure, valuesOf } from './httpCall.ts'
import type { PayOutcome } from './payReport.ts'

/** A renamed link is one hop, a site that tidies its addresses two or three. */
const MAX_REDIRECTS = 5

export interface Unpaid {
  /** The call as it ended: a payment is for this address. */
  readonly call: HttpCall
  readonly answer: HttpAnswer
  /** Why the redirect that stands in the answer was not followed; undefined when it holds none. */
  readonly objection: string | undefined
}

/**
 * Makes a call that carries no payment, and follows redirects inside its origin (scheme, host and port). A GET or HEAD
 * follows all of them (RFC 9110, section 15.4); another method follows 307 and 308, which repeat it with its body, and not
 * 301 to 303, after which clients differ in what they send. What carries a payment never comes through here.
 */
export async function askUnpaid(
  first: HttpCall,
  onStep: (text: string) => void,
): Promise<Unpaid | HttpFailure> {
  let call = first
  for (let hops = 0; ; hops++) {
    const answer = await ask(call)
    if (answer instanceof HttpFailure) return answer
    const { status } = answer
    if (status < 300 || status > 399) return { call, answer, objection: undefined }
    const target = targetOf(call, answer)
    const objection = typeof target === 'string' ? target : hops < MAX_REDIRECTS ? undefined : tooMany
    if (typeof target === 'string' || objection !== undefined) return { call, answer, objection }
    onStep(`Redirected to ${target.href}.`)
    call = { ...call, url: target }
  }
}

const tooMany = `more than ${MAX_REDIRECTS} redirects, one after the other, are not followed`

async function ask(call: HttpCall): Promise<HttpAnswer | HttpFailure> {
  try {
    return await callOnce(call)
  } catch (error) {
    if (error instanceof HttpFailure) return error
    throw error
  }
}

/** Where a redirect leads, when it may be followed; otherwise why not. */
function targetOf({ url, method }: HttpCall, { status, headers }: HttpAnswer): URL | string {
  const locations = distinct(valuesOf(headers, 'location'))
  const target = locations.length === 1 ? URL.parse(locations[0]!, url.href) : null
  if (target === null) return 'it names no one address'
  if (target.origin !== url.origin) return 'only redirects inside one origin are followed'
  if (target.username !== '' || target.password !== '') return 'it names credentials'
  const repeats = status === 307 || status === 308
  const isSafe = method === 'GET' || method === 'HEAD'
  if (!repeats && !(isSafe && (status === 301 || status === 302 || status === 303)))
    return `a ${method} does not follow a ${status}`
  target.hash = ''
  return target
}

/** What an answer to the first call means when it is no 402. */
export function withoutOffer({
  answer,
  objection,
}: Unpaid): { outcome: PayOutcome; message: string } | undefined {
  const { status } = answer
  if (status === 402) return undefined
  if (status >= 200 && status < 300) {
    const isComplete = answer.isWhole && answer.isWithinLimit
    if (isComplete)
      return { outcome: 'free', message: 'The address asked for no payment; nothing was signed.' }
    return { outcome: 'failed', message: 'The address asked for no payment, and its answer is incomplete.' }
  }
  if (objection !== undefined) {
    const location = valuesOf(answer.headers, 'location')[0]?.slice(0, 300) ?? 'nowhere'
    return {
      outcome: 'refused',
      message: `The server redirects to ${location}, and ${objection}. Nothing was signed; ask that address yourself.`,
    }
  }
  return {
    outcome: 'failed',
    message: `The server answered ${status} before any payment; nothing was signed.`,
  }
}
