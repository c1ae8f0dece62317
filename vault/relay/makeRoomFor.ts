import { largestOfLargestAddress } from './backlog.ts'
import type { Peer } from './peer.ts'

/**
 * Who has to go where all places are taken and one more comes: a connection of the address that holds most of them, if that is
 * more than the newcomer's would have; the newest one, and one that has not said what it is before any other. Undefined where
 * places are held evenly: then the newcomer is too many.
 */
export function makeRoomFor(newcomer: Pick<Peer, 'ip'>, peers: Iterable<Peer>): Peer | undefined {
  const all = [...peers]
  const crowded = largestOfLargestAddress(all, () => 1)?.ip
  const crowd = all.filter(({ ip }) => ip === crowded)
  const own = all.filter(({ ip }) => ip === newcomer.ip)
  if (crowd.length <= own.length + 1) return undefined
  return crowd.findLast((peer) => !peer.isIdentified) ?? crowd.at(-1)
}
