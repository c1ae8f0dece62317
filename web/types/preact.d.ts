/**
 * The Preact types that components use, for the server's compilation. Preact's own types include the DOM, with globals such as
 * `name` and `status` that a server does not have. `web/tsconfig.json` checks the same files against the real types.
 */
declare module 'preact' {
  export interface VNode<P = object> {
    type: unknown
    props: P & { children: ComponentChildren }
    key: unknown
  }
  export type ComponentChild = VNode<never> | object | string | number | bigint | boolean | null | undefined
  export type ComponentChildren = ComponentChild[] | ComponentChild
  export type ComponentType<P = object> = (props: P) => ComponentChildren
  export interface Context<T> {
    readonly Provider: ComponentType<{ value: T; children?: ComponentChildren }>
    readonly value?: T
  }
  export function h(type: unknown, props: object | null, ...children: ComponentChildren[]): VNode
  /** Called by Preact for every node that is created. */
  export const options: { vnode?: (node: VNode) => void }
  export function createContext<T>(value: T): Context<T>
}

declare module 'preact/hooks' {
  import type { Context } from 'preact'
  export function useState<T>(first: T | (() => T)): [T, (next: T | ((before: T) => T)) => void]
  export function useState<T = undefined>(): [T | undefined, (next: T | undefined) => void]
  export function useEffect(effect: () => undefined | void | (() => void), inputs?: readonly unknown[]): void
  export function useRef<T>(first: T | null): { current: T | null }
  export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T
  export function useCallback<T>(callback: T, inputs: readonly unknown[]): T
  export function useContext<T>(context: Context<T>): T
}

declare module 'preact-render-to-string' {
  import type { VNode } from 'preact'
  export function renderToString(node: VNode): string
}
