/**
 * The channel from every process of an installation to the process that does the background work (`service.runsJobs`). That process
 * makes each decision once, from the observations of all processes. In an installation with one process, posting a note is a
 * function call.
 */
export interface JobChannel {
  /**
   * Sends a note to the listeners of the topic. Notes arrive in the order in which they were sent. A note is plain data and may be
   * copied. Combine small notes into one. If a process dies, undelivered notes are lost. Never throws.
   */
  post(topic: string, note: unknown): void
  /**
   * Receives the notes of all processes. A process that does not run jobs receives none.
   *
   * @returns a function that stops receiving
   */
  listen(topic: string, listener: (note: unknown) => void): () => void
  /**
   * True in the process that receives the notes now. If several processes may run jobs on one database, this is true in only one of
   * them. When that process has ended, it becomes true in another one.
   */
  readonly isHere: boolean
}
