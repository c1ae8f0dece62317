import { hash } from 'node:crypto'

/** Numbers and names that are the same in every run of the same seed. */
export interface Seeded {
  /** At least 0, less than 1. */
  random(): number
  /** A whole number, the smaller the more often. */
  few(below: number): number
  /** Evenly. */
  pick<T>(list: readonly T[]): T
  /** 32 bytes in hex: always the same of the same words. */
  hex(...of: (string | number)[]): string
  /** The same as a UUID of version 4. */
  uuid(...of: (string | number)[]): string
}

export function createSeeded(seed: number): Seeded {
  let state = seed >>> 0
  // Mulberry32.
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  const hex: Seeded['hex'] = (...of) => hash('sha256', `${seed} ${of.join(' ')}`)
  return {
    random,
    few: (below) => Math.floor(below * random() ** 2),
    pick: (list) => list[Math.floor(random() * list.length)]!,
    hex,
    uuid(...of) {
      const h = hex(...of)
      return `${h.slice(0, 8)}-${h.slice(8, 12)}-4${h.slice(13, 16)}-a${h.slice(17, 20)}-${h.slice(20, 32)}`
    },
  }
}
