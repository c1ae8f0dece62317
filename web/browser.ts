/**
 * The browser APIs that components use. The server compiles the same files and has no DOM types, so they are declared here.
 * Only event handlers and effects may use them, because they do not exist during server rendering.
 */
interface Browser {
  readonly navigator: { readonly clipboard?: { writeText(text: string): Promise<void> } }
  readonly location: { assign(href: string): void }
  getSelection(): { selectAllChildren(node: object): void } | null
  setInterval(run: () => void, ms: number): number
  clearInterval(timer: number): void
  setTimeout(run: () => void, ms: number): number
  clearTimeout(timer: number): void
  addEventListener(type: 'beforeunload', listener: (event: { preventDefault(): void }) => void): void
  removeEventListener(type: 'beforeunload', listener: (event: { preventDefault(): void }) => void): void
}

export const browser = globalThis as unknown as Browser
