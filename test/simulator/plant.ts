import type { Books } from '../../core/ports/books.ts'

/** A mistake, put between the processes of a simulation and what they stand on: it has to be found. */
export interface Plant {
  readonly books?: (books: Books) => Books
  /** The recovery believes that no call runs in its process. */
  readonly isNothingUnderWay?: true
}
