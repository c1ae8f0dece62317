import type { Settler } from '../../core/ports/chains/settler.ts'
import type { Books } from '../../core/ports/store/books.ts'
import type { Leases } from '../../core/ports/store/leases.ts'
import type { Letters } from '../../core/ports/store/letters.ts'

/** A mistake, put between the processes of a simulation and what they stand on: it has to be found. */
export interface Plant {
  readonly books?: (books: Books) => Books
  readonly leases?: (leases: Leases) => Leases
  readonly letters?: (letters: Letters) => Letters
  /** Of the settler that has the key, where gateways share one. */
  readonly settler?: (settler: Settler) => Settler
  /** The recovery believes that no call runs in its process. */
  readonly isNothingUnderWay?: true
}
