import { html } from '../html.ts'

export interface SkeletonProps {
  /** How many lines, or blocks, will come. */
  readonly count?: number
  readonly isTall?: boolean
}

/** The loading state of a view, in the shape of what comes. */
export const Skeleton = ({ count = 3, isTall = false }: SkeletonProps) =>
  html`<div class=${isTall ? 'skeleton tall' : 'skeleton'} role="status">
    <p class="visually-hidden">Loading</p>
    ${Array.from({ length: count }, () => html`<span></span>`)}
  </div>`
