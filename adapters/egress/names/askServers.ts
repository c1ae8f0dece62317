import { setTimeout as sleep } from 'node:timers/promises'
import { type NameServers, type Question, worstOf } from './nameServers.ts'

/**
 * How long IPv6 addresses are waited for once there are IPv4 ones. RFC 8305 (section 3, "resolution delay") says 50 ms, for those
 * who go on listening; here what comes later is not dialled, and a DNS64 looks for IPv4 addresses itself before it answers.
 */
const LATE_FAMILY_MS = 500

type Outcome = PromiseSettledResult<readonly string[]>

/**
 * Asks name servers for the addresses of both families, IPv4 first. IPv6 ones that are long in coming are left out.
 *
 * @throws {Error} the system's; one of `isUnknown` only when both families are
 */
export async function askServers(servers: NameServers, host: string): Promise<readonly string[]> {
  const outcomeOf = async (question: Question): Promise<Outcome> =>
    (await Promise.allSettled([servers.ask(host, question)]))[0]!
  const four = outcomeOf((resolver) => resolver.resolve4(host))
  const six = outcomeOf((resolver) => resolver.resolve6(host))
  const answers: Outcome[] = [await four]
  // Most names lack one of the two families, so one failure is no failure.
  const late: Outcome = { status: 'fulfilled', value: [] }
  const isFound = answers[0]!.status === 'fulfilled'
  answers.push(await (isFound ? Promise.race([six, sleep(LATE_FAMILY_MS, late, { ref: false })]) : six))
  const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  if (found.length > 0) return found
  const failures = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []))
  throw worstOf(failures) ?? new Error(`No address for ${host}`)
}
